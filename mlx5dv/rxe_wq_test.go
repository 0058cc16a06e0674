package mlx5dv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// frames is a raw packet QP that sends to the address of another device's port.
type frames struct {
	cq       *ibv.CQ
	qp       *ibv.QP
	mr       *ibv.MR
	from, to ibv.MAC
}

func macOf(t testing.TB, d *ibv.Device) ibv.MAC {
	t.Helper()
	g := must(d.QueryGID(1, 0))(t)
	return ibv.MAC{g[8] ^ 2, g[9], g[10], g[13], g[14], g[15]}
}

func newFrames(t *testing.T, dev, to *ibv.Device) *frames {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	rxe.NeedFrames(t)
	pd := closing(t, must(dev.AllocPD())(t))
	f := &frames{from: macOf(t, dev), to: macOf(t, to)}
	f.cq = closing(t, must(dev.CreateCQ(16, nil))(t))
	f.qp = closing(t, must(pd.CreateQP(f.cq, f.cq, &ibv.QPOptions{Type: ibv.RawPacket}))(t))
	f.mr = closing(t, must(pd.AllocMR(4096, ibv.LocalWrite, nil))(t))
	ok(t, f.qp.Modify(&ibv.QPAttr{State: ibv.StateInit, Port: 1}, ibv.MaskState|ibv.MaskPort))
	ok(t, f.qp.Modify(&ibv.QPAttr{State: ibv.StateRTR}, ibv.MaskState))
	ok(t, f.qp.Modify(&ibv.QPAttr{State: ibv.StateRTS}, ibv.MaskState))
	return f
}

// send sends a frame of n bytes of data and returns it. It has arrived when send returns.
func (f *frames) send(t *testing.T, n int) []byte {
	t.Helper()
	b := append(append(f.to[:], f.from[:]...), 0x88, 0xb5)
	for i := range n {
		b = append(b, byte(i*3+n))
	}
	copy(f.mr.Bytes(), b)
	if _, err := f.qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled,
		SGEs: []ibv.SGE{f.mr.SGE(0, len(b))}}}); err != nil {
		t.Fatal(err)
	}
	wait(t, f.cq)
	return b
}

func wait(t *testing.T, cq *ibv.CQ) {
	t.Helper()
	var wc [1]ibv.WC
	for {
		n, err := cq.Poll(wc[:])
		if err != nil || n == 1 && wc[0].Status != ibv.WCSuccess {
			t.Fatalf("%+v, %v", wc[0], err)
		}
		if n == 1 {
			return
		}
	}
}

// leads makes an RSS QP of one WQ get the frames to the port's own address.
func leads(t *testing.T, wq *ibv.WQ) {
	t.Helper()
	dev := wq.PD().Device()
	table := closing(t, must(dev.CreateRWQIndTable([]*ibv.WQ{wq}))(t))
	qp := closing(t, must(CreateQP(wq.PD(), nil, nil, &QPOptions{QPOptions: ibv.QPOptions{Type: ibv.RawPacket,
		RSS: &ibv.RSSOptions{Table: table}}}))(t))
	own := ibv.FlowEth{Value: ibv.FlowEthFields{DstMAC: macOf(t, dev)},
		Mask: ibv.FlowEthFields{DstMAC: ibv.MAC{255, 255, 255, 255, 255, 255}}}
	flow := must(qp.CreateFlow(&ibv.FlowAttr{Port: 1, Specs: []ibv.FlowSpec{own}}))(t)
	t.Cleanup(func() { ok(t, flow.Close()) })
}

// A WQ whose ring is written, and whose completions are read, by way of its views: plain, and with strides.
func TestRXEWQRaw(t *testing.T) {
	dev := open(t, 1)
	if dev == nil {
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: TestRXE_RawNobody of package ibv has the refusal")
	}
	f := newFrames(t, open(t, 0), dev)
	pd := closing(t, must(dev.AllocPD())(t))
	mr := closing(t, must(pd.AllocMR(256<<10, ibv.LocalWrite, nil))(t))
	for _, c := range []struct {
		name   string
		shift  bool
		stride *StridingOptions
	}{
		{"plain", false, nil},
		{"strides", false, &StridingOptions{LogStride: 6, LogStrides: 9}},
		{"shifted", true, &StridingOptions{LogStride: 7, LogStrides: 9, TwoByteShift: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cq := closing(t, must(dev.CreateCQ(64, &ibv.CQOptions{DataPath: ibv.DataPathRaw}))(t))
			opt := &WQOptions{WQOptions: ibv.WQOptions{MaxWR: 4}, Striding: c.stride}
			wq := closing(t, must(CreateWQ(pd, cq, opt))(t))
			_, err := wq.PostRecv([]ibv.RecvWR{{}})
			if !errors.Is(err, ibv.ErrRaw) {
				t.Errorf("posting to a WQ whose ring is the caller's: %v", err)
			}
			ok(t, wq.Modify(&ibv.WQAttr{State: ibv.WQReady}, ibv.MaskWQState))
			leads(t, wq)
			v := must(ViewWQ(wq))(t)
			cv := must(ViewCQ(cq))(t)
			size, at := uint32(2048), 0
			if c.stride != nil {
				size, at = 1<<(c.stride.LogStride+c.stride.LogStrides), 16
			}
			for i := range v.Count {
				e := v.Entry(i)
				clear(e)
				binary.BigEndian.PutUint32(e[at:], size)
				binary.BigEndian.PutUint32(e[at+4:], mr.LKey())
				binary.BigEndian.PutUint64(e[at+8:], mr.SGE(int(i*size)%(128<<10), 1).Addr)
			}
			v.Post(v.Count)
			next, ci := Strides{}, uint32(0)
			for k, fillers := 0, 0; k < 300 && (c.stride != nil || k < int(v.Count)); k++ {
				sent := f.send(t, 46+k%1400)
				e := cv.Entry(ci)
				if e == nil {
					t.Fatalf("no completion of frame %d", k)
				}
				var off uint64
				if c.stride == nil {
					off = uint64(k) * uint64(size)
					if n := binary.BigEndian.Uint32(e[44:]); int(n) != len(sent) {
						t.Fatalf("frame %d: %d bytes", k, n)
					}
				} else {
					s := StridesOf(e)
					if s.Filler {
						if int(s.First)+s.Used != 1<<c.stride.LogStrides || s.First != next.First || s.WQE != next.WQE {
							t.Fatalf("filler %+v, want %+v", s, next)
						}
						ci++
						fillers++
						next = Strides{WQE: next.WQE + 1}
						s = StridesOf(cv.Entry(ci))
					}
					lead := 0
					if c.shift {
						lead = 2
					}
					want := Strides{WQE: next.WQE, First: next.First, ByteLen: len(sent),
						Used: (len(sent) + lead + 1<<c.stride.LogStride - 1) >> c.stride.LogStride}
					if s != want {
						t.Fatalf("frame %d: %+v, want %+v", k, s, want)
					}
					off = uint64(s.WQE)*uint64(size)%(128<<10) + uint64(s.First)<<c.stride.LogStride + uint64(lead)
					if next.First += uint16(s.Used); int(next.First) == 1<<c.stride.LogStrides {
						next = Strides{WQE: next.WQE + 1}
					}
					if next.WQE == uint16(v.Count)-1 {
						if fillers == 0 {
							t.Error("no frame met the end of a receive")
						}
						ci++
						cv.Consumed(ci)
						break
					}
				}
				if got := mr.Bytes()[off:][:len(sent)]; !bytes.Equal(got, sent) {
					t.Fatalf("frame %d at %#x: %x, want %x", k, off, got[:20], sent[:20])
				}
				ci++
				cv.Consumed(ci)
			}
		})
	}
}

func TestRXEWQRefused(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	rxe := testutil.NeedRXE(t)
	rxe.NeedRoCE(t)
	pd := closing(t, must(dev.AllocPD())(t))
	raw := closing(t, must(dev.CreateCQ(16, &ibv.CQOptions{DataPath: ibv.DataPathRaw}))(t))
	cq := closing(t, must(dev.CreateCQ(16, nil))(t))
	wq := closing(t, must(CreateWQ(pd, cq, nil))(t))
	_, err := ViewWQ(wq)
	if !errors.Is(err, ibv.ErrNotSupported) {
		t.Errorf("a view of a WQ that this module posts to: %v", err)
	}
	for name, c := range map[string]struct {
		pd  *ibv.PD
		cq  *ibv.CQ
		opt *WQOptions
		err error
	}{
		"no PD": {nil, raw, nil, syscall.EINVAL},
		"no CQ": {pd, nil, nil, syscall.EINVAL},
		"data path": {pd, cq, &WQOptions{Striding: &StridingOptions{LogStride: 6, LogStrides: 9}},
			ibv.ErrNotSupported},
		"small stride": {pd, raw, &WQOptions{Striding: &StridingOptions{LogStride: 5, LogStrides: 9}}, syscall.EINVAL},
		"large stride": {pd, raw, &WQOptions{Striding: &StridingOptions{LogStride: 14, LogStrides: 9}}, syscall.EINVAL},
		"few strides":  {pd, raw, &WQOptions{Striding: &StridingOptions{LogStride: 6, LogStrides: 8}}, syscall.EINVAL},
		"negative":     {pd, raw, &WQOptions{Striding: &StridingOptions{LogStride: -1, LogStrides: 9}}, syscall.EINVAL},
	} {
		if _, err := CreateWQ(c.pd, c.cq, c.opt); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ViewWQ(nil); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a view of nil: %v", err)
	}
}
