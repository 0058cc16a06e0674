//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// request is the requester's part before the wire. It leaves the WQE's own memory in lists.src.
func (rq *requester) request(x *exchange) verdict {
	qp, w := x.qp, x.w
	var need hca.Access
	if w.is&(isRead|isAtomic) != 0 {
		need = hca.AccessLocalWrite
	}
	list, bad := rq.lists.localList(qp, w, rq.lists.src[:0], need)
	rq.lists.src = list
	switch {
	case bad != 0:
		return rq.failed(qp, w, bad)
	case w.n > uint64(qp.Context.Device.Config.Limits.MaxMsgSize), w.is&isAtomic != 0 && w.n != uint64(w.asize):
		return rq.failed(qp, w, synLocalLength)
	}
	if x.transport.addressed {
		qp.Run.Peer = rq.routes.target(qp, w)
		x.peer = qp.Run.Peer
	} else {
		x.peer = rq.routes.peer(qp)
	}
	switch {
	case x.peer != nil && (x.transport.unreliable || x.transport.addressed || x.peer.Run.EPSN == qp.Run.PSN):
		return proceed
	case x.transport.unreliable:
		return rq.done(qp, w, w.n) // lost
	case rq.b.wqes > 0:
		return alone
	}
	rq.noAnswer(qp, w)
	return halt
}

// done is [requester.finish] where that is all, and the PSN stays.
func (rq *requester) done(qp *hca.QP, w *wqe, n uint64) verdict {
	rq.finish(qp, w, n, 0)
	return executed
}

// acknowledged is [requester.finish] for a request that its responder has carried out.
func (rq *requester) acknowledged(x *exchange) *pending {
	x.peer.Run.EPSN = (x.peer.Run.EPSN + x.packets) & 0xffffff
	return rq.finish(x.qp, x.w, x.w.n, x.packets)
}

// finish is the requester's part of a WQE that succeeded: its completion, and on to the next. n is the byte count,
// packets is how far the PSN moves. It returns nil for an unsignaled WQE.
func (rq *requester) finish(qp *hca.QP, w *wqe, n uint64, packets uint32) *pending {
	r := &qp.Run
	if rq.hooks.Trace != nil {
		rq.tr.traceWQE(qp, w)
	}
	rq.b.count(qp, w.opcode, n)
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
	p := rq.comps.cqe(qp.SendCQ, qp, cqeReq, qp.UIdx, w.opcode, w.idx)
	put32(p.img[44:], uint32(n))
	return p
}
