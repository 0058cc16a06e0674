//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// failed ends the WQE at hand with an error as soon as it is the first of its batch.
func (rq *requester) failed(qp *hca.QP, w *wqe, syndrome uint8) verdict {
	if rq.b.wqes > 0 {
		return alone
	}
	rq.failWQE(qp, w, syndrome)
	return halt
}

// failWQE ends the WQE at the tail with an error and stops the queue. The batch is empty.
func (rq *requester) failWQE(qp *hca.QP, w *wqe, syndrome uint8) {
	r := &qp.Run
	if rq.hooks.Trace != nil {
		rq.tr.traceWQE(qp, w)
	}
	if qp.SendCQ != nil && !w.own {
		p := rq.comps.cqe(qp.SendCQ, qp, cqeReqErr, qp.UIdx, w.opcode, w.idx)
		p.fail(syndrome, vendorSyndrome[syndrome])
	}
	r.Tail += w.blocks
	r.Count++
	r.Asked, r.Tries, r.RNRTries = false, 0, 0
	r.Signaled = r.Tail
	rq.batches.commit()
	if qp.DC.HasStreams && streamFailed(qp, w, syndrome) {
		return
	}
	if transportOf(qp.Type).unreliable && qp.State != hca.Err {
		from := qp.State
		qp.State = hca.SQE // receives go on
		rq.states.modified(qp, from, hca.SQE)
		return
	}
	rq.states.toErr(qp)
}

// commit commits the batch of a QP, or ends the WQE at the tail whose memory is not there.
func (rq *requester) commit(qp *hca.QP) bool { return rq.fine(qp, rq.batches.commit()) }

// fine ends the WQE at the tail unless the memory of both sides is there.
func (rq *requester) fine(qp *hca.QP, side int) bool {
	if side != okSide {
		rq.badMemory(qp, side)
	}
	return side == okSide
}

// badMemory ends the WQE at the tail whose memory is not there: its own program's, which a send gathers from and a
// READ scatters to, or the responder's.
func (rq *requester) badMemory(qp *hca.QP, side int) {
	if rq.sends.w.own {
		rq.batches.begin(qp)
		rq.failWQE(qp, &rq.sends.w, synLocalProt)
		return
	}
	if !rq.sends.load(qp, qp.Run.Tail) || rq.sends.w.parse(qp.Type) != "" {
		return
	}
	w := &rq.sends.w
	peer, srq := rq.b.peer, rq.b.srq
	local := side == badSource
	if w.is&(isRead|isAtomic) != 0 {
		local = !local
	}
	gone := rq.b.err == guest.ErrGone
	if !gone && !rq.lists.paged {
		owner := qp.Mem
		switch {
		case local || peer == nil:
		case srq != nil: // with XRC it may be of another process than the QP
			owner = srq.Mem
		default:
			owner = peer.Mem
		}
		rq.strict.memoryGone(qp, w, owner)
	}
	if rq.lists.paged {
		rq.pageOut(qp, w, peer)
	}
	rq.batches.begin(qp)
	switch {
	case gone && local: // its context is released in a moment
	case gone && !transportOf(qp.Type).unreliable:
		rq.noAnswer(qp, w)
	case local:
		rq.failWQE(qp, w, synLocalProt)
	case gone || peer == nil || qp.Type == hca.UD || qp.Type == hca.RawPacket:
		rq.finish(qp, w, 0, 0)
		rq.batches.commit()
	case w.is&isSend != 0 && w.is&isWrite == 0:
		rq.refuse(qp, w, peer, srq, synRemoteOp, synLocalProt)
	default:
		rq.refuse(qp, w, peer, srq, synRemoteAccess, 0)
	}
}

// badReceive ends a receive that cannot take a frame or a datagram, and the receive queue with it.
func (m *messages) badReceive(peer *hca.QP, rcv recvEntry, syndrome uint8) {
	m.comps.cqe(peer.RecvCQ, peer, cqeRespErr, peer.RecvIdx, 0, rcv.counter).failReceive(syndrome)
	m.recvs.consume(peer, peer.SRQ)
	m.batches.commit()
	if peer.Type == hca.WorkQueue {
		peer.Fatal()
	}
	m.states.toErr(peer)
}

// pageOut follows pages of regions on demand that the program has given back.
func (rq *requester) pageOut(qp *hca.QP, w *wqe, peer *hca.QP) {
	out := func(d *hca.Device, key uint32, addr, n uint64) {
		k := d.Key(key)
		if k == nil {
			return
		}
		if va, ok := k.Resolve(addr, n, 0); ok {
			k.PageOut(d, va, n)
		}
	}
	for i := range w.sges[:w.nsge] {
		if s := &w.sges[i]; s.inl == nil {
			out(qp.Context.Device, s.lkey, s.addr, uint64(s.n))
		}
	}
	if peer != nil && w.is&(isWrite|isRead|isAtomic) != 0 {
		out(peer.Context.Device, w.rkey, w.remote, w.n)
	}
}
