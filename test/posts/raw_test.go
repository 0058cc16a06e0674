//go:build linux

package posts

import (
	"errors"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_PostsRaw sees that a raw packet QP, which there is with libmlx5's data path only, takes no other opcode
// than Send, however it is posted.
func TestRXE_PostsRaw(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if !rxe.Emulated {
		t.Skip("compares the two data paths: runs on the emulated device only")
	}
	tab := newTable(t, rxe)
	defer tab.close()
	h := tab.hosts[0]
	var ue *ibv.UnsupportedError
	cq, err := h.ctx.CreateCQ(16, &ibv.CQOptions{DataPath: ibv.DataPathDirect})
	tab.must(err)
	if qp, err := h.pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.RawPacket}); !errors.As(err, &ue) {
		t.Errorf("a raw packet QP on the direct data path: %v, %v", qp, err)
	}
	tab.must(cq.Close())

	cq, err = h.ctx.CreateCQ(16, &ibv.CQOptions{DataPath: ibv.DataPathOps})
	tab.must(err)
	qp, err := h.pd.CreateQP(cq, cq, &ibv.QPOptions{Type: ibv.RawPacket})
	tab.must(err)
	_, err = qp.Endpoint(rxe.Port, rxe.GID)
	tab.must(err)
	tab.must(qp.Connect(ibv.Endpoint{}, nil))
	p := &pair{t: tab, engine: ibv.DataPathOps, typ: ibv.RawPacket, a: &end{host: h, qp: qp, cq: cq}, batch: qp.Batch()}
	n := 0
	for _, op := range opcodes {
		if op == ibv.OpSend {
			continue
		}
		for flags := range allFlags + 1 {
			for _, m := range manners {
				j := &job{wr: ibv.SendWR{ID: 1, Opcode: op, Flags: flags, SGEs: []ibv.SGE{{Addr: 4096, Length: 60}}}}
				if op == ibv.OpLocalInv {
					j.wr.SGEs = nil
				}
				if m == method && !p.method(nil, &j.wr) {
					continue
				}
				n++
				k, err := p.post([]*job{j}, m)
				var ae *ibv.ArgError
				if k != 0 || !errors.As(err, &ae) || ae.Arg != "Opcode" || ae.Got != op.String() ||
					ae.Want != "an opcode of a RawPacket QP: Send" {
					t.Errorf("%v %v by %v: %d, %v", op, flags, m, k, err)
				}
			}
		}
	}
	var wcs [1]ibv.WC
	if k, err := cq.Poll(wcs[:]); k != 0 || err != nil {
		t.Errorf("completions of what was refused: %d, %v", k, err)
	}
	t.Logf("%d refusals", n)
	if n < 2000 || !slices.Contains(opcodes, ibv.OpSend) {
		t.Error("that is too little: nothing was tested")
	}
	tab.must(qp.Close())
	tab.must(cq.Close())
}
