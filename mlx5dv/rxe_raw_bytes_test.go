package mlx5dv

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// Both data paths write the same WQEs of frames, byte for byte. TSO is posted on the direct data path alone.
func TestRXERawBytes(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: TestRXE_RawNobody of package ibv has the refusal")
	}
	rxe := testutil.NeedRXE(t)
	rxe.NeedFrames(t)
	lib, _, err := begin(dev, "test").reach()
	ok(t, err)
	pd := closing(t, must(dev.AllocPD())(t))
	mr := closing(t, must(pd.AllocMR(8192, ibv.LocalWrite, nil))(t))
	r := rand.New(rand.NewPCG(7, 8))
	for i := range mr.Bytes() {
		mr.Bytes()[i] = byte(r.Uint32())
	}
	paths := []ibv.DataPath{ibv.DataPathDirect, ibv.DataPathOps}
	var rings [2][]byte
	var qps [2]*ibv.QP
	var cqs [2]*ibv.CQ
	for i, path := range paths {
		cqs[i] = closing(t, must(dev.CreateCQ(64, &ibv.CQOptions{DataPath: path}))(t))
		qp := closing(t, must(pd.CreateQP(cqs[i], cqs[i], &ibv.QPOptions{Type: ibv.RawPacket, MaxSendWR: 8,
			MaxInline: 200, MaxSendSGE: 5}))(t))
		ok(t, qp.Modify(&ibv.QPAttr{State: ibv.StateInit, Port: 1}, ibv.MaskState|ibv.MaskPort))
		ok(t, qp.Modify(&ibv.QPAttr{State: ibv.StateRTR}, ibv.MaskState))
		ok(t, qp.Modify(&ibv.QPAttr{State: ibv.StateRTS}, ibv.MaskState))
		h, leave, err := verbs.Enter(qp, "test")
		ok(t, err)
		v := must(lib.InitQP(h, 0))(t)
		leave()
		rings[i], qps[i] = memory(v.SQ.Buf, uint64(v.SQ.WQECnt)*64), qp
	}
	if len(rings[0]) != len(rings[1]) {
		t.Fatalf("rings of %d and %d bytes", len(rings[0]), len(rings[1]))
	}
	at, wraps := 0, 0
	for i := range 600 {
		flags := ibv.Signaled | []ibv.SendFlags{0, ibv.Fence, ibv.Solicited, ibv.IPCsum}[i%4]
		wr := ibv.SendWR{ID: uint64(i), Opcode: ibv.OpSend, Flags: flags}
		switch i / 4 % 2 {
		case 0: // pieces, of which some are empty
			left := 18 + r.IntN(1400)
			for k := range 5 {
				n := left
				if k < 4 {
					n = r.IntN(min(left, 30) + 1)
				}
				wr.SGEs = append(wr.SGEs, mr.SGE(k*1500, n))
				left -= n
			}
		case 1:
			wr.Inline = mr.Bytes()[i:][:18+r.IntN(183)]
		}
		var wqe [2][]byte
		for k := range paths {
			n, err := qps[k].PostSend([]ibv.SendWR{wr})
			if n != 1 {
				t.Fatalf("%v: %+v: %v", paths[k], wr, err)
			}
			var wcs [1]ibv.WC
			must(cqs[k].Wait(t.Context(), wcs[:]))(t)
			if wcs[0].ID != uint64(i) {
				t.Fatalf("%v: %+v", paths[k], wcs[0])
			}
			w := append(bytes.Clone(rings[k][at:]), rings[k][:at]...)
			wqe[k] = w[:int(w[7]&0x3f)*16]
			copy(wqe[k][4:7], "QPN")
			if head := int(wqe[k][29]); len(wr.Inline) > head { // of the frame, in the Ethernet segment
				start := 32 + max(head-2, 0)
				clear(wqe[k][start+4+len(wr.Inline)-head:])
			}
		}
		if !bytes.Equal(wqe[0], wqe[1]) {
			t.Fatalf("%d, %+v: %v wrote\n% x, and %v\n% x", i, wr, paths[0], wqe[0], paths[1], wqe[1])
		}
		if at += (len(wqe[0]) + 63) &^ 63; at >= len(rings[0]) {
			at, wraps = at-len(rings[0]), wraps+1
		}
	}
	if wraps < 5 {
		t.Errorf("the ring began anew %d times", wraps)
	}
}
