//go:build linux

package engine

import (
	"slices"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// exec works on one QP for a while.
func (e *Engine) exec(qp *hca.QP) {
	r := &qp.Run
	if r.Dead || qp.Context.Dead || qp.Context.Device.Gone {
		return
	}
	if e.b.wqes > 0 && !e.batches.joins(qp) {
		e.close()
	}
	if r.Look && !e.sends.fetch(qp, r.Tail) {
		return
	}
	if qp.State == hca.Err || qp.State == hca.SQE {
		e.flush(qp)
		return
	}
	if len(r.Rendezvous) > 0 && e.sends.runs(qp) && !e.rendezvous(qp) {
		return
	}
	for n := e.c.Batch; n > 0 && r.Tail != r.Announced && e.sends.runs(qp); {
		k := e.run(qp, n)
		if k < 0 || nanos() > e.turns.limit {
			break
		}
		n -= k
	}
	if r.Tail != r.Announced && e.sends.runs(qp) {
		e.ready.push(qp)
	}
}

// run executes up to n WQEs as one batch and returns how many, or -1 when the queue stops.
func (e *Engine) run(qp *hca.QP, n int) int {
	e.batches.begin(qp)
	b := e.b
	v, first, again := executed, b.wqes, true
	n = min(n, e.c.Batch-first)
	for v == executed && b.wqes-first < n && qp.Run.Tail != qp.Run.Announced {
		from := b.n
		if v = e.next(qp); v == executed {
			again = again && e.sends.w.again(b.n-from)
			if b.wqes++; len(e.batches.sigErrs) > 0 {
				break
			}
		}
	}
	done, side := b.wqes-first, okSide
	switch v {
	case halt:
		e.settle()
		return -1
	case executed, alone:
		e.strict.unchanged(qp, b.tail)
		if v == executed && again && e.batches.leavesOpen(qp) {
			return done
		}
		if side = e.batches.commit(); side == okSide {
			e.settle()
			return max(done, 1)
		}
	}
	if len(b.before) > 0 {
		e.apart()
		return -1
	}
	e.batches.undo()
	if done <= 1 && v != broken {
		e.req.badMemory(qp, side)
		return -1
	}
	return e.run(qp, 1) // find the one whose memory it is
}

// settle follows a batch: what was to be told when it is through.
func (e *Engine) settle() {
	if len(e.recvs.limits) > 0 {
		e.comps.writeLater()
	}
	e.recvs.raiseLimits()
	for _, q := range e.batches.sigErrs {
		e.req.stopped(q)
	}
	e.batches.settled()
}

// next adds the WQE at the tail to the batch, or deals with it completely when the batch is empty.
func (e *Engine) next(qp *hca.QP) verdict {
	r, w, b := &qp.Run, &e.sends.w, e.b
	if !e.sends.load(qp, r.Tail) {
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
		return e.req.failed(qp, w, synLocalQPOp)
	}
	e.strict.wqe(qp, w)
	if v := e.req.fault(qp, w); v != proceed {
		return v
	}
	rule := w.parse(qp.Type)
	if rule == "" && slices.Contains(qp.Run.BadStreams, w.stream) {
		return e.req.failed(qp, w, synFlush)
	}
	if carries := transportOf(qp.Type).carries; rule == "" && w.is&^isKnown != 0 {
		rule = RuleWQEOpcode // of another transport
		if w.is&carries != 0 {
			if rule = w.beyond(&qp.Context.Device.Config.Limits); rule == "" {
				return e.execute(qp, w)
			}
		}
	}
	if b.wqes > 0 {
		return alone
	}
	if rule != "" {
		e.strict.badWQE(qp, w, rule)
	}
	return e.req.failed(qp, w, synLocalQPOp)
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

// execute carries out a parsed WQE whose transport carries its opcode.
func (e *Engine) execute(qp *hca.QP, w *wqe) verdict {
	switch {
	case w.opcode == opNOP:
		return e.req.done(qp, w, 0)
	case w.opcode == opUMR:
		return e.req.umr(qp, w)
	case w.opcode == opTagMatch:
		return e.req.tagMatch(qp, w)
	case w.opcode == opSetPSV:
		return e.req.setPSV(qp, w)
	case w.opcode == opMMO:
		return e.req.copyMemory(qp, w)
	case qp.Type == hca.UD:
		return e.grams.datagram(qp, w)
	case qp.Type == hca.RawPacket:
		return e.wire.frame(qp, w)
	}
	return e.connected(qp, w)
}

// connected executes a WQE of RC, UC, XRC_SEND or a DCI.
func (e *Engine) connected(qp *hca.QP, w *wqe) verdict {
	x := &e.x
	*x = exchange{qp: qp, w: w, transport: transportOf(qp.Type), target: x.target[:0]}
	if v := e.req.request(x); v != proceed {
		return v
	}
	if v := e.resp.respond(x); v != proceed {
		return v
	}
	return e.resp.deliver(x)
}
