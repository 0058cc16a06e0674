//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// fault asks for a fault of the WQE at the tail, once, and carries it out.
func (rq *requester) fault(qp *hca.QP, w *wqe) verdict {
	r := &qp.Run
	if h := rq.hooks.AtWQE; h != nil && !r.Asked {
		if rq.b.wqes > 0 { // a fault of this WQE must not touch those before it
			return alone
		}
		r.Asked = true
		r.Fault = uint8(h(qp, w.opcode, r.Count))
		if r.Dead || !rq.sends.runs(qp) {
			return halt
		}
	}
	if r.Fault == 0 {
		return proceed
	}
	f := fault.Kind(r.Fault)
	r.Fault = 0
	switch f {
	case fault.RNR:
		if transportOf(qp.Type).unreliable {
			return proceed
		}
		rq.rnr(qp, w, 0)
	case fault.RetryExceeded:
		rq.failWQE(qp, w, synRetry)
	case fault.RemoteAccess:
		rq.failWQE(qp, w, synRemoteAccess)
	case fault.Flush:
		rq.states.toErr(qp)
	case fault.QPFatal:
		rq.states.fatal(qp)
	case fault.MWBind:
		if w.opcode != opUMR {
			return proceed
		}
		rq.failWQE(qp, w, synMWBind)
	case fault.BitFlip:
		rq.b.flip = rq.b.n
		return proceed
	case fault.PageFault, fault.ReceiveOrder:
		rq.b.receive = f
		return proceed
	default:
		return proceed
	}
	return halt
}

// receiveFault carries out a fault of the receive that a message has found.
func (rs *responder) receiveFault(x *exchange) verdict {
	b, r := rs.b, &x.peer.Run
	f := b.receive
	b.receive = fault.None
	switch {
	case f == fault.PageFault && x.srq != nil && x.cq != nil:
		rs.comps.cqe(x.cq, x.peer, cqeRespErr, x.uidx, 0, x.recv.counter).fail(synAborted, vendorPageFault)
		rs.recvs.consume(x.peer, x.srq)
		rs.batches.commit() // the message begins again
		b.peer, b.srq = nil, nil
		b.join(x.peer, x.srq)
	case f == fault.ReceiveOrder && x.srq == nil && rs.recvs.rqFetch(x.peer, r.Head) && r.Posted-r.Head >= 2:
		r.Swap, r.Swapped = r.Head, true
	}
	return rs.nextReceive(x)
}
