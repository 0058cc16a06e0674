package selftest

import (
	"context"
	"errors"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// syndrome is a completion as it is reported. expected is empty if any status will do.
func syndrome(cause, side string, wc ibv.WC, expected string) Syndrome {
	return Syndrome{Cause: cause, Side: side, Status: wc.Status.String(), Code: uint32(wc.Status),
		Vendor: wc.VendorErr, Expected: expected}
}

// failure is a work request that must fail.
type failure struct {
	cause string
	want  ibv.WCStatus // at the requester
	other ibv.WCStatus // at the responder, whose receive fails; WCSuccess: it has none
	post  func(x, y *side)
}

// quick has a QP give up soon.
var quick = &ibv.ConnectOptions{AckTimeout: 8 * time.Millisecond, RetryCount: 1, RNRRetry: 1,
	RNRTimer: 80 * time.Microsecond}

// failureStep is step 5.
func failureStep(s *stage) {
	write := func(x, y *side, edit func(wr *ibv.SendWR)) {
		wr := ibv.SendWR{ID: 1, Opcode: ibv.OpWrite, Flags: ibv.Signaled, SGEs: []ibv.SGE{x.mr.SGE(0, 64)},
			Remote: y.mr.Remote().At(0)}
		edit(&wr)
		x.post(wr)
	}
	list := []failure{
		{"the peer's QP is gone", ibv.WCRetryExcErr, 0, func(x, y *side) {
			closeNow(y.box, y.qp)
			write(x, y, func(*ibv.SendWR) {})
		}},
		{"unknown rkey", ibv.WCRemAccessErr, 0, func(x, y *side) {
			write(x, y, func(wr *ibv.SendWR) { wr.Remote.RKey ^= 0x5500 })
		}},
		{"a read beyond the region", ibv.WCRemAccessErr, 0, func(x, y *side) {
			write(x, y, func(wr *ibv.SendWR) { wr.Opcode, wr.Remote = ibv.OpRead, y.mr.Remote().At(4096-32) })
		}},
		{"no receive posted", ibv.WCRNRRetryExcErr, 0, func(x, y *side) {
			write(x, y, func(wr *ibv.SendWR) { wr.Opcode, wr.Remote = ibv.OpSend, ibv.RemoteAddr{} })
		}},
		{"unknown lkey", ibv.WCLocProtErr, 0, func(x, y *side) {
			write(x, y, func(wr *ibv.SendWR) { wr.SGEs[0].LKey ^= 0x5500 })
		}},
		{"a message longer than its receive", ibv.WCRemInvReqErr, ibv.WCLocLenErr, func(x, y *side) {
			y.recv(y.qp, 1, y.mr.SGE(0, 16))
			write(x, y, func(wr *ibv.SendWR) { wr.Opcode, wr.Remote = ibv.OpSend, ibv.RemoteAddr{} })
		}},
		{"a receive into memory of an unknown lkey", ibv.WCRemOpErr, ibv.WCLocProtErr, func(x, y *side) {
			sge := y.mr.SGE(0, 64)
			sge.LKey ^= 0x5500
			y.recv(y.qp, 1, sge)
			write(x, y, func(wr *ibv.SendWR) { wr.Opcode, wr.Remote = ibv.OpSend, ibv.RemoteAddr{} })
		}},
		{"an atomic at an odd address", ibv.WCRemInvReqErr, 0, func(x, y *side) {
			write(x, y, func(wr *ibv.SendWR) {
				wr.Opcode, wr.SGEs, wr.Remote = ibv.OpFetchAdd, []ibv.SGE{x.mr.SGE(0, 8)}, y.mr.Remote().At(4)
			})
		}},
		{"a QP in ERR", ibv.WCWRFlushErr, 0, func(x, y *side) {
			x.ok(x.qp.Modify(&ibv.QPAttr{State: ibv.StateErr}, ibv.MaskState))
			write(x, y, func(*ibv.SendWR) {})
		}},
	}
	for _, path := range paths {
		for _, f := range list {
			s.check(f.cause+", "+path.String(), func(b *box) { fails(b, path, &f) })
		}
	}
	for _, path := range paths {
		s.check("CQ overrun, "+path.String(), func(b *box) { overrun(b, path) })
	}
}

func fails(b *box, path ibv.DataPath, f *failure) {
	x, y, _ := b.pair(pairOptions{path: path, memory: 4096, connect: quick})
	f.post(x, y)
	wc := x.next()
	b.check.Syndromes = append(b.check.Syndromes, syndrome(f.cause, "requester", wc, f.want.String()))
	if f.other != ibv.WCSuccess {
		wc := y.next()
		b.check.Syndromes = append(b.check.Syndromes, syndrome(f.cause, "responder", wc, f.other.String()))
		if wc.Status != f.other {
			b.fail("the responder completed with %v, want %v", wc.Status, f.other)
		}
	}
	if wc.Status != f.want {
		b.fail("the requester completed with %v, want %v", wc.Status, f.want)
	}
}

// overrun has more completions than a CQ holds. The device raises an event, and everything can still be closed.
func overrun(b *box, path ibv.DataPath) {
	x, y := b.side(0, 4096, path, nil), b.side(1, 4096, path, nil)
	x.cq = x.newCQ(8, path, nil)
	room := x.cq.Cap().CQE
	connect(x, y, x.newQP(ibv.QPOptions{MaxSendWR: 4 * room}, 0), y.newQP(ibv.QPOptions{}, 0), nil)
	b.engine(x.qp)
	for i := range 4 * room {
		x.post(ibv.SendWR{ID: uint64(i), Opcode: ibv.OpWrite, Flags: ibv.Signaled, SGEs: []ibv.SGE{x.mr.SGE(0, 8)},
			Remote: y.mr.Remote().At(0)})
	}
	b.note("%d completions into a CQ of %d", 4*room, room)
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for seen := 0; ; seen++ {
		e, err := x.dev.AsyncEvent(ctx)
		if err != nil && seen > 0 && errors.Is(err, context.DeadlineExceeded) {
			b.fail("no event CQErr; see the notes")
		}
		b.ok(err)
		b.note("event %v", e.Type)
		if e.Type == ibv.EventCQErr {
			return
		}
	}
}
