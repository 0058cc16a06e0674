package mlx5dv

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXESignaturePipelining: a wrong signature stops the send queue, so that the work requests behind it are canceled
// before they tell the peer that the data is there. libmlx5 follows keys and rings on its own data path alone.
func TestRXESignaturePipelining(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	s := newMkeySideOn(t, dev, keyWriter(dev), WithMkeyConfigure, &MkeyOptions{Flags: MkeyBlockSignature})
	if s == nil {
		return
	}
	qp := closing(t, must(CreateQP(s.pd, s.cq, s.cq, &QPOptions{Flags: SignaturePipelining,
		DriverOps: WithMkeyConfigure, QPOptions: ibv.QPOptions{MaxSendWR: 32, MaxInline: 160,
			SendOps: ibv.SendOpWrite | ibv.SendOpRead}}))(t))
	loop(t, qp)
	if n, err := CancelSends(qp, 7); n != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("canceling in RTS: %d, %v", n, err)
	}
	const flat, other = 1 << 15, 1 << 14
	dif := &BlockSignature{Memory: &SigDomain{BlockSize: Block512, T10DIF: &BlockT10DIF{Guard: GuardCRC}},
		Check: T10DIFGuard}
	data := bytes.Repeat([]byte("wrong"), 200)[:512]
	signed := withT10(0, 0, 0, data)
	write := func(id uint64, key ibv.SGE, at int) ibv.SendWR {
		return ibv.SendWR{ID: id, Opcode: ibv.OpWrite, Flags: ibv.Signaled, SGEs: []ibv.SGE{key},
			Remote: s.mr.Remote().At(uint64(at))}
	}
	for round := range 3 { // around the ring
		m := s.mr.Bytes()
		clear(m)
		copy(m, signed)
		m[5] ^= 1
		change := must(s.key.Change(&MkeyConfig{Access: ibv.LocalWrite, List: []ibv.SGE{s.mr.SGE(0, 520)},
			Signature: dif}))(t)
		read := write(7, s.mr.SGE(other, 8), 0)
		read.Opcode = ibv.OpRead
		unsignaled := write(7, s.mr.SGE(0, 8), flat+3000)
		unsignaled.Flags = 0
		post(t, qp, ibv.SendWR{Opcode: ibv.OpDriver1, Mkey: change},
			write(1, ibv.SGE{Length: 512, LKey: s.key.LKey()}, flat),
			write(7, s.mr.SGE(0, 8), flat+1000), read, write(8, s.mr.SGE(8, 8), flat+2000), unsignaled,
			ibv.SendWR{ID: 7, Opcode: ibv.OpDriver1, Flags: ibv.Signaled, Mkey: change})
		s.done(1)
		var e *SigError
		if err := s.key.Check(); !errors.As(err, &e) || e.Kind != SigBadGuard {
			t.Errorf("%v, want a wrong guard", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
		ev, err := dev.AsyncEvent(ctx)
		cancel()
		if err != nil || ev.Type != ibv.EventSQDrained || ev.QP != qp {
			t.Fatalf("%+v, %v, want that the send queue is drained", ev, err)
		}
		must(qp.Query(ibv.MaskState))(t)
		// A change of a key with a signature in memory has two WQEs.
		if n, err := CancelSends(qp, 7); n != 5 || err != nil {
			t.Fatalf("round %d: %d canceled, %v", round, n, err)
		}
		if n, err := CancelSends(qp, 9); n != 0 || err != nil {
			t.Errorf("of another ID: %d, %v", n, err)
		}
		ok(t, qp.Modify(&ibv.QPAttr{State: ibv.StateRTS}, ibv.MaskState))
		for _, want := range []struct {
			id uint64
			op ibv.WCOpcode
		}{{7, ibv.WCWrite}, {7, ibv.WCRead}, {8, ibv.WCWrite}, {7, ibv.WCDriver1}} {
			if wc := s.done(want.id); wc.Opcode != want.op {
				t.Errorf("%+v, want %v", wc, want.op)
			}
		}
		if m[flat+1000] != 0 || m[flat+3000] != 0 || m[other] != 0 || !bytes.Equal(m[flat+2000:][:8], m[8:16]) {
			t.Error("what was canceled was done, or what was not was not")
		}
	}
}
