package mlx5dv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/emu/emutest"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// blocks returns how many blocks the emulated device has written.
func blocks(t *testing.T, dev *ibv.Device) int {
	t.Helper()
	return must(emutest.Need(t).Blocks(dev.Name()))(t)
}

// TestRXECompression sends the same random messages with and without compression of both CQs, in each format and size
// of entries, to a receive queue and to an SRQ: completions and memory are the same.
func TestRXECompression(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	if path, _ := closing(t, must(dev.CreateCQ(4, nil))(t)).DataPath(); path == ibv.DataPathOps {
		_, err := CreateCQ(dev, 16, &CQOptions{Compression: CQEHash})
		if !errors.Is(err, ibv.ErrNotSupported) || !strings.Contains(err.Error(), "DataPathDirect") {
			t.Errorf("on the ops data path: %v", err)
		}
		return
	}
	a := must(QueryDevice(dev))(t)
	if a.Flags&CQE128Compression == 0 || a.CQECompression.MaxEntries == 0 ||
		a.CQECompression.Formats != CQEHash|CQEChecksum|CQEChecksumStride {
		t.Fatalf("%+v, %v", a.CQECompression, a.Flags)
	}
	pd := closing(t, must(dev.AllocPD())(t))
	for _, format := range []CQEFormats{CQEHash, CQEChecksum, CQEChecksumStride} {
		for _, size := range []int{0, 128, padded} {
			for _, shared := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%d/shared=%v", format, size, shared), func(t *testing.T) {
					o := CQOptions{EntrySize: size &^ 1, Padding: size == padded}
					want := messages(t, pd, &o, shared)
					o.Compression = format
					if refused := untried(pd, o, shared); refused != (shared || size != 0) {
						t.Errorf("without UntriedCompression: refused %v", refused)
					}
					o.UntriedCompression = true
					before := blocks(t, dev)
					got := messages(t, pd, &o, shared)
					if n := blocks(t, dev) - before; n < 10 {
						t.Errorf("%d blocks only", n)
					}
					for i, wcs := range got.wcs {
						for k, wc := range wcs[:min(len(wcs), len(want.wcs[i]))] {
							if wc != want.wcs[i][k] {
								t.Fatalf("completion %d of CQ %d:\n got %+v\nwant %+v", k, i, wc, want.wcs[i][k])
							}
						}
						if len(wcs) != len(want.wcs[i]) {
							t.Errorf("%d completions of CQ %d, want %d", len(wcs), i, len(want.wcs[i]))
						}
					}
					if !bytes.Equal(got.mem, want.mem) {
						t.Error("memory differs")
					}
				})
			}
		}
	}
}

// untried reports whether a QP on CQs of the options is refused as untried.
func untried(pd *ibv.PD, o CQOptions, shared bool) bool {
	refused := func(err error) bool {
		return errors.Is(err, ibv.ErrNotSupported) && strings.Contains(err.Error(), "UntriedCompression")
	}
	cq, err := CreateCQ(pd.Device(), 4, &o)
	if err != nil {
		return refused(err)
	}
	defer cq.Close()
	opt := &ibv.QPOptions{}
	if shared {
		if opt.SRQ, err = pd.CreateSRQ(&ibv.SRQOptions{MaxWR: 4}); err != nil {
			return false
		}
		defer opt.SRQ.Close()
	}
	qp, err := pd.CreateQP(cq, cq, opt)
	if err != nil {
		return refused(err)
	}
	return qp.Close() != nil
}

// outcome is what random messages leave: the completions of sends and of receives, and the memory.
type outcome struct {
	wcs [2][]ibv.WC
	mem []byte
}

// messages sends random messages, as many at once as the queues hold, several laps around the CQs.
func messages(t *testing.T, pd *ibv.PD, o *CQOptions, shared bool) (out outcome) {
	t.Helper()
	const depth, room = 16, 256
	dev := pd.Device()
	r, polls := rand.New(rand.NewPCG(7, 9)), rand.New(rand.NewPCG(1, 1))
	cqs := [2]*ibv.CQ{must(CreateCQ(dev, depth, o))(t), must(CreateCQ(dev, depth, o))(t)}
	mr := must(pd.AllocMR(4*depth*room, ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead, nil))(t)
	opt := &QPOptions{QPOptions: ibv.QPOptions{MaxSendWR: depth, MaxRecvWR: depth}}
	var srq *ibv.SRQ
	if shared {
		srq = must(pd.CreateSRQ(&ibv.SRQOptions{MaxWR: depth}))(t)
		opt.SRQ = srq
	}
	qp := must(CreateQP(pd, cqs[0], cqs[1], opt))(t)
	loop(t, qp)
	for i := range mr.Bytes() {
		mr.Bytes()[i] = byte(i * 7)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	for id := uint64(0); id < 20*depth; {
		var recvs []ibv.RecvWR
		var sends []ibv.SendWR
		for range 2 + r.IntN(depth-2) {
			id++
			at := int(id) % depth * room
			wr := ibv.SendWR{ID: id, Opcode: ibv.OpSend, Flags: ibv.Signaled,
				SGEs: []ibv.SGE{mr.SGE(at, 65+r.IntN(room-64))}}
			switch r.IntN(20) {
			case 0:
				wr.Opcode, wr.Imm = ibv.OpSendImm, uint32(id)
			case 1:
				wr.Flags |= ibv.Solicited
			case 2:
				wr.SGEs[0].Length = 20 // the completion carries it
			case 3:
				wr.Opcode, wr.Remote = ibv.OpWrite, mr.Remote().At(uint64(depth*room+at))
			case 4:
				wr.Opcode, wr.Remote = ibv.OpRead, mr.Remote().At(uint64(depth*room+at))
				wr.SGEs = []ibv.SGE{mr.SGE(3*depth*room+at, 100)}
			}
			sends = append(sends, wr)
			if wr.Opcode == ibv.OpSend || wr.Opcode == ibv.OpSendImm {
				recvs = append(recvs, ibv.RecvWR{ID: id, SGEs: []ibv.SGE{mr.SGE(2*depth*room+at, room)}})
			}
		}
		post := qp.PostRecv
		if shared {
			post = srq.PostRecv
		}
		if _, err := post(recvs); err != nil {
			t.Fatal(err)
		}
		if _, err := qp.PostSend(sends); err != nil {
			t.Fatal(err)
		}
		for i, left := range []int{len(sends), len(recvs)} {
			for left > 0 {
				wcs := make([]ibv.WC, 1+polls.IntN(left))
				n, err := cqs[i].Wait(ctx, wcs)
				if err != nil {
					t.Fatal(err)
				}
				for _, wc := range wcs[:n] {
					ok(t, wc.Err())
					wc.QPN, wc.SrcQPN, wc.Timestamp = 0, 0, 0
					if i == 0 && wc.Opcode != ibv.WCRead {
						wc.ByteLen = 0
					}
					out.wcs[i] = append(out.wcs[i], wc)
				}
				left -= n
			}
		}
	}
	out.mem = bytes.Clone(mr.Bytes())
	if o.Compression != 0 {
		if err := cqs[0].Resize(100); !errors.Is(err, ibv.ErrNotSupported) {
			t.Errorf("resized: %v", err)
		}
	}
	ok(t, qp.Close())
	if shared {
		ok(t, srq.Close())
	}
	for _, c := range []interface{ Close() error }{mr, cqs[0], cqs[1]} {
		ok(t, c.Close())
	}
	return out
}
