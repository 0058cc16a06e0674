//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/internal/emu/guest"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
)

// verdict is what became of a WQE.
type verdict uint8

const (
	taken  verdict = iota // part of the batch, or done
	alone                 // needs an empty batch
	halt                  // the queue cannot go on now
	broken                // memory of the batch is bad: undo it
)

// exec works on one QP for a while.
func (e *Engine) exec(qp *hca.QP) {
	r := &qp.Run
	if r.Dead || qp.Context.Dead || qp.Context.Device.Gone {
		return
	}
	if r.Look && !e.fetch(qp, r.Tail) {
		return
	}
	if qp.State == hca.Err || qp.State == hca.SQE {
		e.flush(qp)
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

// runs tells if a QP's send queue executes.
func (e *Engine) runs(qp *hca.QP) bool {
	return qp.Run.Wait == waitNone && (qp.State == hca.RTS || qp.State == hca.SQD && qp.Run.Drain) && !qp.Run.Dead
}

// run executes up to n WQEs as one batch and returns how many, or -1 when the queue stops.
func (e *Engine) run(qp *hca.QP, n int) int {
	e.begin(qp)
	b := &e.b
	v := taken
	for v == taken && b.wqes < n && qp.Run.Tail != qp.Run.Announced {
		if v = e.plan(qp); v == taken {
			if b.wqes++; qp.Run.Drain {
				break
			}
		}
	}
	done := b.wqes
	switch {
	case v == halt:
		e.settle(qp, done)
		return -1
	case v == taken || v == alone:
		if e.watching() {
			e.checkChanged(qp, b.tail)
		}
		if e.bad = e.commit(); e.bad == okSide {
			e.settle(qp, done)
			return max(done, 1)
		}
	}
	e.undo()
	if done <= 1 && v != broken {
		e.badMemory(qp, e.bad)
		return -1
	}
	return e.run(qp, 1) // find the one
}

// settle is what follows a batch.
func (e *Engine) settle(qp *hca.QP, done int) {
	for _, s := range e.limits {
		e.srqLimit(s)
	}
	e.limits = e.limits[:0]
	if done > 0 && qp.Run.Drain {
		e.drained(qp)
	}
}

// badMemory ends the WQE at the tail: memory of its own program (gather of a send, scatter of a read), or of the responder, is not there.
func (e *Engine) badMemory(qp *hca.QP, side int) {
	if !e.load(qp, qp.Run.Tail) || e.w.parse(qp.Type) != "" {
		return
	}
	w := &e.w
	peer, srq := e.b.peer, e.b.srq
	local := side == badSource
	if w.info&(isRead|isAtomic) != 0 {
		local = !local
	}
	if e.b.err == guest.ErrGone {
		e.begin(qp)
		switch {
		case local: // its context is released in a moment
		case qp.Type == hca.RC || qp.Type == hca.XRCSend:
			e.noAnswer(qp, w)
		default:
			e.finish(qp, w, 0, 0)
			e.commit()
		}
		return
	}
	pid := qp.Mem.PID
	if !local && peer != nil {
		pid = peer.Mem.PID
	}
	if e.watching() {
		e.violate(pid, RuleMRUnmapped, "QP 0x"+hex(qp.Num)+", WQE "+u(uint32(w.idx))+": memory of a registered region is gone")
	}
	e.begin(qp)
	switch {
	case local:
		e.failWQE(qp, w, synLocalProt)
	case peer == nil || qp.Type == hca.UD:
		e.finish(qp, w, 0, 0)
		e.commit()
	case w.info&isSend != 0 && w.info&isWrite == 0:
		e.refuse(qp, w, peer, srq, synRemoteOp, synLocalProt)
	default:
		e.refuse(qp, w, peer, srq, synRemoteAccess, 0)
	}
}

// plan adds the WQE at the tail to the batch, or deals with it wholly when the batch is empty.
func (e *Engine) plan(qp *hca.QP) verdict {
	r, w, b := &qp.Run, &e.w, &e.b
	empty := b.wqes == 0
	if !e.load(qp, r.Tail) {
		if !empty {
			return alone
		}
		return halt
	}
	if bad := e.badControl(qp, w); bad != "" {
		if !empty {
			return alone
		}
		e.violate(qp.Mem.PID, bad, "QP 0x"+hex(qp.Num)+", block "+u(r.Tail&0xffff)+": index "+u(uint32(w.idx))+", QPN 0x"+hex(w.qpn)+", opcode 0x"+hex(uint32(w.opcode))+", size "+u(uint32(w.size)))
		if bad == RuleWQESize {
			r.Tail = r.Announced
			w.blocks = 0
			w.idx = uint16(b.tail)
		}
		e.failWQE(qp, w, synLocalQPOp)
		return halt
	}
	if e.watching() && r.Hash != 0 {
		if r.Hash != hash(w.raw[:w.size]) {
			e.violate(qp.Mem.PID, RuleWQEChanged, "QP 0x"+hex(qp.Num)+", WQE "+u(uint32(w.idx))+" changed while it was retried")
		}
		r.Hash = 0
	}
	if e.watching() && r.Tail+w.blocks-r.Signaled > qp.SQ.Count {
		e.violate(qp.Mem.PID, RuleUnsignaled, "QP 0x"+hex(qp.Num)+": no signaled WQE in the last "+u(qp.SQ.Count)+" blocks")
		r.Signaled = r.Tail + w.blocks
	}
	if h := e.Hooks.AtWQE; h != nil && !r.Asked {
		if !empty { // a fault that befalls this one must not touch those before it
			return alone
		}
		r.Asked = true
		r.Fault = uint8(h(qp, w.opcode, r.Count))
		if r.Dead || !e.runs(qp) {
			return halt
		}
	}
	if r.Fault != 0 {
		if v := e.inject(qp, w); v != taken {
			return v
		}
	}
	bad := w.parse(qp.Type)
	switch {
	case bad == "" && w.info&onType(qp.Type) != 0 && w.info&^(isKnown) != 0:
	case !empty:
		return alone
	default:
		if bad == "" && w.info&^isKnown != 0 {
			bad = RuleWQEOpcode // of another transport
		}
		if bad != "" {
			e.violate(qp.Mem.PID, bad, "QP 0x"+hex(qp.Num)+" ("+qp.Type.String()+"), WQE "+u(uint32(w.idx))+": opcode 0x"+hex(uint32(w.opcode))+", "+u(uint32(w.size))+" bytes")
		}
		e.failWQE(qp, w, synLocalQPOp)
		return halt
	}
	switch {
	case w.opcode == opNOP:
		e.finish(qp, w, 0, 0)
		return taken
	case w.opcode == opUMR:
		if !empty {
			return alone
		}
		return e.umr(qp, w)
	case qp.Type == hca.UD:
		return e.datagram(qp, w)
	}
	return e.connected(qp, w)
}

// badControl checks a control segment against its queue.
func (e *Engine) badControl(qp *hca.QP, w *wqe) string {
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

// inject does what a fault wants of the WQE at the tail; taken means: go on.
func (e *Engine) inject(qp *hca.QP, w *wqe) verdict {
	r := &qp.Run
	f := Fault(r.Fault)
	r.Fault = 0
	switch f {
	case FaultRNR:
		if qp.Type == hca.RC || qp.Type == hca.XRCSend {
			e.rnr(qp, w, 0)
			return halt
		}
	case FaultRetry:
		e.failWQE(qp, w, synRetry)
		return halt
	case FaultAccess:
		e.failWQE(qp, w, synRemoteAccess)
		return halt
	case FaultFlush:
		e.toErr(qp)
		return halt
	case FaultQPFatal:
		e.fatal(qp)
		return halt
	case FaultBitFlip:
		e.b.flip = e.b.n
	}
	return taken
}

// finish is the requester's part of a WQE that succeeded: its completion, and on to the next. n is the byte count, packets how far the PSN moves.
func (e *Engine) finish(qp *hca.QP, w *wqe, n uint64, packets uint32) *pending {
	r := &qp.Run
	if e.Hooks.Trace != nil {
		e.traceWQE(qp, w)
	}
	e.count(qp, w.opcode, n)
	r.Tail += w.blocks
	r.PSN = (r.PSN + packets) & 0xffffff
	r.Count++
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

// failWQE ends the WQE at the tail with an error and stops the queue. The batch is empty.
func (e *Engine) failWQE(qp *hca.QP, w *wqe, syndrome uint8) {
	r := &qp.Run
	if e.Hooks.Trace != nil {
		e.traceWQE(qp, w)
	}
	if qp.SendCQ != nil {
		p := e.cqe(qp.SendCQ, qp, cqeReqErr, qp.UIdx, w.opcode, w.idx)
		p.fail(syndrome, vendorSyndrome[syndrome])
	}
	r.Tail += w.blocks
	r.Count++
	r.Asked, r.Tries, r.RNRTries = false, 0, 0
	r.Signaled = r.Tail
	e.commit()
	if (qp.Type == hca.UD || qp.Type == hca.UC) && qp.State != hca.Err {
		from := qp.State
		qp.State = hca.SQE // receives go on
		e.QPModified(qp, from, hca.SQE)
		return
	}
	e.toErr(qp)
}

// toErr moves a QP to ERR, from where it is flushed in the next turn.
func (e *Engine) toErr(qp *hca.QP) {
	if qp.State == hca.Reset || qp.State == hca.Err || qp.Run.Dead {
		return
	}
	from := qp.State
	qp.ForceError()
	if qp.State == hca.Err && !qp.Run.Flush {
		e.QPModified(qp, from, hca.Err)
	}
}

// fatal is a catastrophic error of a QP.
func (e *Engine) fatal(qp *hca.QP) {
	if qp.State == hca.Reset || qp.State == hca.Err || qp.Run.Dead {
		return
	}
	qp.Event(hca.EventQPFatal)
	e.toErr(qp)
}
