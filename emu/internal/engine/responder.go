//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// respond is the responder's part when a request arrives: whether it may have what it asks for.
func (e *Engine) respond(x *exchange) verdict {
	qp, w, peer := x.qp, x.w, x.peer
	x.srq, x.pd, x.mem, x.cq, x.uidx = peer.SRQ, peer.PD, peer.Mem, peer.RecvCQ, peer.RecvIdx
	if peer.Type == hca.XRCRecv && !x.xrcReceiver() {
		return e.refused(x, synRemoteInval, 0)
	}
	if x.srq != nil && x.srq.Tags > 0 {
		x.cq, x.uidx = x.srq.CQ, x.srq.UIdx
	}
	if !e.b.join(peer, x.srq) {
		return alone
	}
	if peer.State == hca.RTR && peer.Type != hca.DCT && !peer.Run.CommEst {
		peer.Run.CommEst = true
		peer.Event(hca.EventCommEst)
	}
	mtu, peerMTU := uint64(128)<<qp.Attr.PathMTU, uint64(128)<<peer.Attr.PathMTU
	if mtu != peerMTU && w.n > min(mtu, peerMTU) {
		return e.refused(x, synRemoteInval, 0)
	}
	x.packets = uint32(max((w.n+mtu-1)/mtu, 1))
	if w.is&(isWrite|isRead|isAtomic) != 0 {
		return e.reachTarget(x)
	}
	return proceed
}

// reachTarget checks a request for remote memory against the responder's attributes and the key.
func (e *Engine) reachTarget(x *exchange) verdict {
	w, peer := x.w, x.peer
	right := hca.AccessRemoteWrite
	switch {
	case w.is&isRead != 0:
		right = hca.AccessRemoteRead
	case w.is&isAtomic != 0:
		right = hca.AccessRemoteAtomic
		if w.remote&uint64(w.asize-1) != 0 {
			return e.refused(x, synRemoteInval, 0)
		}
	}
	if peer.Rights()&right == 0 || right != hca.AccessRemoteWrite && peer.Type != hca.DCT && !e.resources(x) {
		return e.refused(x, synRemoteInval, 0)
	}
	if w.n > 0 {
		var ok bool
		x.target, ok = e.remote(peer, x.pd, w.rkey, w.remote, w.n, right, x.target[:0])
		if !ok || w.is&isAtomic != 0 && len(x.target) > 1 {
			return e.refused(x, synRemoteAccess, 0)
		}
	}
	return proceed
}

// resources reports whether the responder has resources for a further READ or atomic. The requester does not wait for
// the answers to those that were posted together, unless it may have no more outstanding.
func (e *Engine) resources(x *exchange) bool {
	reads, own, most := x.qp.Run.Reads, x.qp.Attr.Reads(), x.peer.Attr.DestReads()
	if x.w.fenced() {
		reads = 0
	}
	if own <= most || reads < uint32(most) {
		return true
	}
	if e.b.wqes == 0 {
		e.strict.outstanding(x.qp, own, most)
	}
	return false
}

// nextReceive finds the receive that a message consumes.
func (e *Engine) nextReceive(x *exchange) verdict {
	var ok bool
	if x.recv, ok = e.receive(x.peer, x.srq); ok {
		if e.b.receive != FaultNone {
			return e.receiveFault(x)
		}
		return proceed
	}
	switch {
	case x.peer.State == hca.Err || x.peer.Run.Dead: // its queue could not be read
		return alone
	case !x.transport.reliable:
		return e.lost(x)
	case e.b.wqes > 0:
		return alone
	}
	e.rnr(x.qp, x.w, rnrTime[x.peer.Attr.MinRNRTimer&31])
	return halt
}

// received completes the receive of a message; with inCQE the payload goes from b.tiny into the completion.
func (e *Engine) received(x *exchange, op uint8, inCQE bool) (p *pending) {
	if x.cq != nil {
		p = e.cqe(x.cq, x.peer, op, x.uidx, 0, x.recv.counter)
		if inCQE {
			p.inline(e.b.tiny[:x.w.n])
		} else {
			put32(p.img[24:], x.qp.Num)
		}
		put32(p.img[36:], x.w.imm)
		put32(p.img[44:], uint32(x.w.n))
		p.solicit(x.w)
	}
	if e.Hooks.Trace != nil {
		e.traceRecv(x.peer, x.srq, x.recv, x.w.n)
	}
	e.consume(x.peer, x.srq)
	return p
}

// refused ends a request that the responder rejects: see [Engine.refuse].
func (e *Engine) refused(x *exchange, nak, own uint8) verdict {
	switch {
	case e.b.wqes > 0:
		return alone
	case !x.transport.reliable && own == 0:
		return e.lost(x)
	}
	e.refuse(x.qp, x.w, x.peer, x.srq, nak, own)
	return halt
}

// refuse is a NAK: the requester's WQE ends with syndrome nak, and the responder is broken too, unless it is a DCT. own
// is the syndrome of the responder's receive, or 0 if that is not touched and an event tells the program.
func (e *Engine) refuse(qp *hca.QP, w *wqe, peer *hca.QP, srq *hca.SRQ, nak, own uint8) {
	if nak == synRemoteAccess {
		countAt(peer, hca.RespRemoteAccess)
	}
	if own != 0 {
		cq, uidx := receiveCQ(peer, srq)
		if rcv, ok := e.receive(peer, srq); ok && cq != nil {
			e.cqe(cq, peer, cqeRespErr, uidx, 0, rcv.counter).failReceive(own)
			e.consume(peer, srq)
		}
	}
	if transportOf(qp.Type).reliable {
		e.failWQE(qp, w, nak)
	} else {
		e.finish(qp, w, w.n, 0)
		e.commit()
	}
	if peer.Type == hca.DCT { // it serves others
		return
	}
	if own == 0 {
		if nak == synRemoteAccess {
			peer.Event(hca.EventQPAccessErr)
		} else {
			peer.Event(hca.EventQPReqErr)
		}
	}
	e.toErr(peer)
}
