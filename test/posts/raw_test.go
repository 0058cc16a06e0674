//go:build linux

package posts

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_PostsRaw posts each opcode with all flags on a raw packet QP, in several forms, with both data paths. What is
// taken arrives as it was sent, and nothing else does.
func TestRXE_PostsRaw(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if !rxe.Emulated {
		t.Skip("compares the two data paths: runs on the emulated device only")
	}
	tab := newTable(t, rxe)
	defer tab.close()
	tab.record()
	if os.Geteuid() != 0 {
		t.Skip("needs root: TestRXE_RawNobody of package ibv has the refusal")
	}

	for path, other := range map[ibv.DataPath]ibv.DataPath{ibv.DataPathOps: ibv.DataPathDirect,
		ibv.DataPathDirect: ibv.DataPathOps} {
		t.Run(path.String(), func(t *testing.T) { postRaw(t, tab, path, other) })
	}
}

// postRaw posts with one data path and receives with another.
func postRaw(t *testing.T, tab *table, path, other ibv.DataPath) {
	a, b := newRawEnd(tab, 0, path), newRawEnd(tab, 1, other)
	frame := append(append(b.mac[:], a.mac[:]...), 0x88, 0xb5)
	frame = append(frame, tab.noise[:86]...)
	copy(a.mr.Bytes(), frame)
	whole, taken := []ibv.SGE{a.mr.SGE(0, 100)}, 0
	header := &ibv.TSO{Header: frame[:14], MSS: 50} // ignored, but by OpTSO, which the QP was not made for
	for _, op := range opcodes {
		for flags := range ibv.SendFlags(allFlags + 1) {
			for form, wr := range []ibv.SendWR{
				{SGEs: whole},
				{SGEs: []ibv.SGE{a.mr.SGE(0, 14), a.mr.SGE(14, 86)}},
				{Inline: frame},
				{SGEs: slices.Repeat(whole, a.qp.Cap().MaxSendSGE+1)},
				{SGEs: whole, AH: tab.anyAH},
				{SGEs: whole, TSO: header},
			} {
				wr.Opcode, wr.Flags = op, flags
				n, err := a.qp.PostSend([]ibv.SendWR{wr})
				want := op == ibv.OpSend && flags&unknownFlag == 0 && form != 3 && form != 4
				if (n == 1) != want || (err == nil) != want {
					t.Fatalf("%v %v, form %d: %d, %v", op, flags, form, n, err)
				}
				if !want {
					continue
				}
				taken++
				tab.frameOnWire(a.qp, &wr, fmt.Sprintf("%v %v, form %d", op, flags, form))
				if wc := a.next(tab); wc.Status != ibv.WCSuccess || wc.Opcode != ibv.WCSend {
					t.Fatalf("%v %v, form %d: %+v", op, flags, form, wc)
				}
				wc := b.next(tab)
				if got := b.mr.Bytes()[:wc.ByteLen]; wc.Opcode != ibv.WCRecv || !bytes.Equal(got, frame) {
					t.Fatalf("%v %v, form %d: %+v, %x", op, flags, form, wc, got)
				}
				b.receive(tab)
			}
		}
	}
	if wcs := make([]ibv.WC, 1); taken != 32*4 || b.poll(tab, wcs) != 0 {
		t.Errorf("%d were taken, and then came %+v", taken, wcs)
	}
	a.close(tab)
	b.close(tab)
}

// frameOnWire records the work request that the device must read of a frame.
func (t *table) frameOnWire(qp *ibv.QP, wr *ibv.SendWR, cell string) {
	if !t.recording {
		return
	}
	sums := wr.Flags&ibv.IPCsum != 0
	w := wqe{Op: wireOps[wr.Opcode], DS: 2, CE: true, SE: wr.Flags&ibv.Solicited != 0,
		FENCE: wr.Flags&ibv.Fence != 0, L3: sums, L4: sums, Inline: len(wr.Inline)}
	for _, s := range wr.SGEs {
		if wr.Flags&ibv.Inline != 0 {
			w.Inline += int(s.Length)
			continue
		}
		w.SGEs = append(w.SGEs, sge{fmt.Sprintf("%#x", s.LKey), fmt.Sprintf("%#x", s.Addr), s.Length})
		w.DS++
	}
	if w.Inline > 0 {
		w.DS += (4 + w.Inline + 15) / 16
	}
	t.wire(t.hosts[0].dev, qp, cell, &w)
}

// rawEnd is a raw packet QP with a rule that leads the frames to its port there.
type rawEnd struct {
	cq   *ibv.CQ
	mr   *ibv.MR
	qp   *ibv.QP
	flow *ibv.Flow
	mac  ibv.MAC
}

func newRawEnd(t *table, host int, path ibv.DataPath) (e *rawEnd) {
	h := t.hosts[host]
	e = &rawEnd{}
	var err error
	e.cq, err = h.dev.CreateCQ(64, &ibv.CQOptions{DataPath: path})
	t.must(err)
	e.mr, err = h.pd.AllocMR(4096, ibv.LocalWrite, nil)
	t.must(err)
	e.qp, err = h.pd.CreateQP(e.cq, e.cq, &ibv.QPOptions{Type: ibv.RawPacket, MaxSendSGE: 2, MaxInline: 100,
		SignalAll: true})
	t.must(err)
	t.must(e.qp.Modify(&ibv.QPAttr{State: ibv.StateInit, Port: 1}, ibv.MaskState|ibv.MaskPort))
	t.must(e.qp.Modify(&ibv.QPAttr{State: ibv.StateRTR}, ibv.MaskState))
	t.must(e.qp.Modify(&ibv.QPAttr{State: ibv.StateRTS}, ibv.MaskState))
	g, err := h.dev.QueryGID(1, 0)
	t.must(err)
	e.mac = ibv.MAC{g[8] ^ 2, g[9], g[10], g[13], g[14], g[15]}
	e.flow, err = e.qp.CreateFlow(&ibv.FlowAttr{Port: 1, Specs: []ibv.FlowSpec{ibv.FlowEth{
		Value: ibv.FlowEthFields{DstMAC: e.mac}, Mask: ibv.FlowEthFields{DstMAC: ibv.MAC{255, 255, 255, 255, 255,
			255}}}}})
	t.must(err)
	e.receive(t)
	return e
}

func (e *rawEnd) receive(t *table) {
	_, err := e.qp.PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{e.mr.SGE(0, 4096)}}})
	t.must(err)
}

func (e *rawEnd) poll(t *table, wcs []ibv.WC) int {
	n, err := e.cq.Poll(wcs)
	t.must(err)
	return n
}

func (e *rawEnd) next(t *table) ibv.WC {
	wcs := make([]ibv.WC, 1)
	_, err := e.cq.Wait(t.Context(), wcs)
	t.must(err)
	return wcs[0]
}

func (e *rawEnd) close(t *table) {
	t.must(e.flow.Close())
	t.must(e.qp.Close())
	t.must(e.mr.Close())
	t.must(e.cq.Close())
}
