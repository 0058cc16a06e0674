//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// respond is the responder's part when a request arrives: whether it may have what it asks for.
func (rs *responder) respond(x *exchange) verdict {
	qp, w, peer := x.qp, x.w, x.peer
	x.srq, x.pd, x.mem = peer.SRQ, peer.PD, peer.Mem
	if peer.Type == hca.XRCRecv && !x.xrcReceiver() {
		return rs.refused(x, synRemoteInval, 0)
	}
	x.cq, x.uidx = receiveCQ(peer, x.srq)
	if !rs.b.join(peer, x.srq) {
		return alone
	}
	if peer.State == hca.RTR && peer.Type != hca.DCT && !peer.Run.CommEst {
		peer.Run.CommEst = true
		peer.Event(hca.EventCommEst)
	}
	mtu, peerMTU := uint64(128)<<qp.Attr.PathMTU, uint64(128)<<peer.Attr.PathMTU
	if mtu != peerMTU && w.n > min(mtu, peerMTU) {
		return rs.refused(x, synRemoteInval, 0)
	}
	x.packets = uint32(max((w.n+mtu-1)/mtu, 1))
	if w.is&(isWrite|isRead|isAtomic) != 0 {
		return rs.reachTarget(x)
	}
	return proceed
}

// reachTarget checks a request for remote memory against the responder's attributes and the key.
func (rs *responder) reachTarget(x *exchange) verdict {
	w, peer := x.w, x.peer
	right := hca.AccessRemoteWrite
	switch {
	case w.is&isRead != 0:
		right = hca.AccessRemoteRead
	case w.is&isAtomic != 0:
		right = hca.AccessRemoteAtomic
		if w.remote&uint64(w.asize-1) != 0 || w.asize > uint32(peer.Context.Device.Config.Limits.MaxAtomic) {
			return rs.refused(x, synRemoteInval, 0)
		}
	}
	if peer.Rights()&right == 0 || right != hca.AccessRemoteWrite && peer.Type != hca.DCT && !rs.resources(x) {
		return rs.refused(x, synRemoteInval, 0)
	}
	if w.n > 0 {
		var ok bool
		x.target, ok = rs.lists.remote(peer, x.pd, w.rkey, w.remote, w.n, right, x.target[:0])
		if !ok || w.is&isAtomic != 0 && len(x.target) > 1 {
			return rs.refused(x, synRemoteAccess, 0)
		}
	}
	return proceed
}

// resources reports whether the responder has resources for a further READ or atomic. The requester does not wait for
// the answers to those that were posted together, unless it may have no more outstanding.
func (rs *responder) resources(x *exchange) bool {
	reads, own, most := x.qp.Run.Reads, x.qp.Attr.Reads(), x.peer.Attr.DestReads()
	if x.w.fenced() {
		reads = 0
	}
	if own <= most || reads < uint32(most) {
		return true
	}
	if rs.b.wqes == 0 {
		rs.strict.violateQP(x.qp, RuleRdAtomic,
			": max_rd_atomic is %d, max_dest_rd_atomic of the peer %d, and more are outstanding", own, most)
	}
	return false
}

// nextReceive finds the receive that a message consumes.
func (rs *responder) nextReceive(x *exchange) verdict {
	var ok bool
	if x.recv, ok = rs.recvs.receive(x.peer, x.srq); ok {
		if rs.b.receive != fault.None {
			return rs.receiveFault(x)
		}
		return proceed
	}
	switch {
	case x.peer.State == hca.Err || x.peer.Run.Dead: // its queue could not be read
		return alone
	case x.transport.unreliable:
		return rs.req.done(x.qp, x.w, x.w.n) // lost
	case rs.b.wqes > 0:
		return alone
	}
	rs.req.rnr(x.qp, x.w, rnrTime[x.peer.Attr.MinRNRTimer&31])
	return halt
}

// scatter puts where n bytes of a message go in lists.dst, if the receive takes them.
func (rs *responder) scatter(x *exchange, pd *hca.PD, segs []byte, n uint64) verdict {
	switch rs.lists.scatterList(x.peer.Context.Device, pd, segs, 0, n) {
	case synLocalProt:
		return rs.refused(x, synRemoteOp, synLocalProt)
	case synLocalLength:
		return rs.refused(x, synRemoteInval, synLocalLength)
	}
	return proceed
}

// received completes the receive of a message; with inCQE the payload goes from b.tiny into the completion.
func (rs *responder) received(x *exchange, op uint8, inCQE bool) (p *pending) {
	if x.cq != nil {
		p = rs.comps.cqe(x.cq, x.peer, op, x.uidx, 0, x.recv.counter)
		if inCQE {
			p.inline(rs.b.tiny[:x.w.n])
		} else {
			put32(p.img[24:], x.qp.Num)
		}
		put32(p.img[36:], x.w.imm)
		put32(p.img[44:], uint32(x.w.n))
		p.solicit(x.w)
	}
	if rs.hooks.Trace != nil {
		rs.tr.traceRecv(x.peer, x.srq, x.recv, x.w.n)
	}
	rs.recvs.consume(x.peer, x.srq)
	return p
}

// refused ends a request that the responder rejects: see [requester.refuse].
func (rs *responder) refused(x *exchange, nak, own uint8) verdict {
	switch {
	case rs.b.wqes > 0:
		return alone
	case x.transport.unreliable && own == 0:
		return rs.req.done(x.qp, x.w, x.w.n) // lost
	}
	rs.req.refuse(x.qp, x.w, x.peer, x.srq, nak, own)
	return halt
}

// refuse is a NAK: the requester's WQE ends with syndrome nak, and the responder is broken too, unless it is a DCT. own
// is the syndrome of the responder's receive, or 0 if that is not touched and an event tells the program.
func (rq *requester) refuse(qp *hca.QP, w *wqe, peer *hca.QP, srq *hca.SRQ, nak, own uint8) {
	if nak == synRemoteAccess {
		countAt(peer, hca.RespRemoteAccess)
	}
	if own != 0 {
		cq, uidx := receiveCQ(peer, srq)
		if rcv, ok := rq.recvs.receive(peer, srq); ok && cq != nil {
			rq.comps.cqe(cq, peer, cqeRespErr, uidx, 0, rcv.counter).failReceive(own)
			rq.recvs.consume(peer, srq)
		}
	}
	if transportOf(qp.Type).unreliable {
		rq.finish(qp, w, w.n, 0)
		rq.batches.commit()
	} else {
		rq.failWQE(qp, w, nak)
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
	rq.states.toErr(peer)
}
