//go:build linux

package engine

import (
	"slices"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// verdict is what became of a WQE, or of one step on its way.
type verdict uint8

const (
	proceed  verdict = iota // the next step follows
	executed                // part of the batch, or done
	alone                   // needs an empty batch
	halt                    // the queue cannot go on now
	broken                  // memory of the batch is bad: undo it
)

// exec works on one QP for a while.
func (e *Engine) exec(qp *hca.QP) {
	r := &qp.Run
	if r.Dead || qp.Context.Dead || qp.Context.Device.Gone {
		return
	}
	if e.b.wqes > 0 && !e.joins(qp) {
		e.close()
	}
	if r.Look && !e.fetch(qp, r.Tail) {
		return
	}
	if qp.State == hca.Err || qp.State == hca.SQE {
		e.flush(qp)
		return
	}
	if len(r.Rendezvous) > 0 && e.runs(qp) && !e.rendezvous(qp) {
		return
	}
	for n := e.c.Batch; n > 0 && r.Tail != r.Announced && e.runs(qp); {
		k := e.run(qp, n)
		if k < 0 || nanos() > e.limit {
			break
		}
		n -= k
	}
	if r.Tail != r.Announced && e.runs(qp) {
		e.push(qp)
	}
}

// runs reports whether a QP's send queue executes.
func (e *Engine) runs(qp *hca.QP) bool {
	r := &qp.Run
	return r.Wait == waitNone && !r.Dead && qp.State == hca.RTS
}

// run executes up to n WQEs as one batch and returns how many, or -1 when the queue stops.
func (e *Engine) run(qp *hca.QP, n int) int {
	e.begin(qp)
	b := &e.b
	v, first, again := executed, b.wqes, true
	n = min(n, e.c.Batch-first)
	for v == executed && b.wqes-first < n && qp.Run.Tail != qp.Run.Announced {
		from := b.n
		if v = e.next(qp); v == executed {
			again = again && e.w.again(b.n-from)
			if b.wqes++; len(e.sigErrs) > 0 {
				break
			}
		}
	}
	done := b.wqes - first
	switch v {
	case halt:
		e.settle()
		return -1
	case executed, alone:
		e.strict.unchanged(qp, b.tail)
		if v == executed && again && e.leavesOpen(qp) {
			return done
		}
		if e.badSide = e.commit(); e.badSide == okSide {
			e.settle()
			return max(done, 1)
		}
	}
	if len(b.before) > 0 {
		e.apart()
		return -1
	}
	e.undo()
	if done <= 1 && v != broken {
		e.badMemory(qp, e.badSide)
		return -1
	}
	return e.run(qp, 1) // find the one whose memory it is
}

// settle follows a batch: what was to be told when it is through.
func (e *Engine) settle() {
	if len(e.limits) > 0 {
		e.writeLater()
	}
	for _, s := range e.limits {
		e.srqLimit(s)
	}
	e.limits = e.limits[:0]
	for _, q := range e.sigErrs {
		e.stopped(q)
	}
	e.sigErrs = e.sigErrs[:0]
}

// next adds the WQE at the tail to the batch, or deals with it completely when the batch is empty.
func (e *Engine) next(qp *hca.QP) verdict {
	r, w, b := &qp.Run, &e.w, &e.b
	if !e.load(qp, r.Tail) {
		if b.wqes > 0 {
			return alone
		}
		return halt
	}
	if rule := badControl(qp, w); rule != "" {
		if b.wqes > 0 {
			return alone
		}
		e.strict.badControl(qp, w, rule)
		if rule == RuleWQESize {
			r.Tail = r.Announced
			w.blocks = 0
			w.idx = uint16(b.tail)
		}
		return e.failed(qp, w, synLocalQPOp)
	}
	e.strict.wqe(qp, w)
	if v := e.fault(qp, w); v != proceed {
		return v
	}
	rule := w.parse(qp.Type)
	if rule == "" && slices.Contains(qp.Run.BadStreams, w.stream) {
		return e.failed(qp, w, synFlush)
	}
	if carries := transportOf(qp.Type).carries; rule == "" && w.is&^isKnown != 0 {
		if w.is&carries != 0 {
			return e.execute(qp, w)
		}
		rule = RuleWQEOpcode // of another transport
	}
	if b.wqes > 0 {
		return alone
	}
	if rule != "" {
		e.strict.badWQE(qp, w, rule)
	}
	return e.failed(qp, w, synLocalQPOp)
}

// badControl checks a control segment against its queue. It returns the rule that is broken, or "".
func badControl(qp *hca.QP, w *wqe) string {
	r := &qp.Run
	switch {
	case w.size == 0 || w.blocks > r.Announced-r.Tail:
		return RuleWQESize
	case w.idx != uint16(r.Tail):
		return RuleWQEIndex
	case w.qpn != qp.Num:
		return RuleWQEQPN
	}
	return ""
}

// finish is the requester's part of a WQE that succeeded: its completion, and on to the next. n is the byte count,
// packets is how far the PSN moves. It returns nil for an unsignaled WQE.
func (e *Engine) finish(qp *hca.QP, w *wqe, n uint64, packets uint32) *pending {
	r := &qp.Run
	if e.Hooks.Trace != nil {
		e.traceWQE(qp, w)
	}
	e.b.count(qp, w.opcode, n)
	r.Tail += w.blocks
	r.PSN = (r.PSN + packets) & 0xffffff
	r.Count++
	if w.fenced() {
		r.Reads = 0
	}
	if w.is&(isRead|isAtomic) != 0 {
		r.Reads++
	}
	if r.Tail == r.Announced { // what is posted from now on may find them answered
		r.Reads = 0
	}
	r.Asked, r.Tries, r.RNRTries = false, 0, 0
	if w.flags&flagCEMask < flagCEAlways {
		return nil
	}
	r.Signaled = r.Tail
	if qp.SendCQ == nil {
		return nil
	}
	p := e.cqe(qp.SendCQ, qp, cqeReq, qp.UIdx, w.opcode, w.idx)
	put32(p.img[44:], uint32(n))
	return p
}
