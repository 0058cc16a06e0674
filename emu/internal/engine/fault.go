//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// fault asks for a fault of the WQE at the tail, once, and carries it out.
func (e *Engine) fault(qp *hca.QP, w *wqe) verdict {
	r := &qp.Run
	if h := e.Hooks.AtWQE; h != nil && !r.Asked {
		if e.b.wqes > 0 { // a fault of this WQE must not touch those before it
			return alone
		}
		r.Asked = true
		r.Fault = uint8(h(qp, w.opcode, r.Count))
		if r.Dead || !e.runs(qp) {
			return halt
		}
	}
	if r.Fault == 0 {
		return proceed
	}
	f := Fault(r.Fault)
	r.Fault = 0
	switch f {
	case FaultRNR:
		if !transportOf(qp.Type).reliable {
			return proceed
		}
		e.rnr(qp, w, 0)
	case FaultRetry:
		e.failWQE(qp, w, synRetry)
	case FaultAccess:
		e.failWQE(qp, w, synRemoteAccess)
	case FaultFlush:
		e.toErr(qp)
	case FaultQPFatal:
		e.fatal(qp)
	case FaultBind:
		if w.opcode != opUMR {
			return proceed
		}
		e.failWQE(qp, w, synMWBind)
	case FaultBitFlip:
		e.b.flip = e.b.n
		return proceed
	case FaultPage, FaultOrder:
		e.b.receive = f
		return proceed
	default:
		return proceed
	}
	return halt
}

// receiveFault carries out a fault of the receive that a message has found.
func (e *Engine) receiveFault(x *exchange) verdict {
	b, r := &e.b, &x.peer.Run
	f := b.receive
	b.receive = FaultNone
	switch {
	case f == FaultPage && x.srq != nil && x.cq != nil:
		e.cqe(x.cq, x.peer, cqeRespErr, x.uidx, 0, x.recv.counter).fail(synAborted, vendorPageFault)
		e.consume(x.peer, x.srq)
		e.commit() // the message begins again
		b.peer, b.srq = nil, nil
		b.join(x.peer, x.srq)
	case f == FaultOrder && x.srq == nil && e.rqFetch(x.peer, r.Head) && r.Posted-r.Head >= 2:
		r.Swap, r.Swapped = r.Head, true
	}
	return e.nextReceive(x)
}
