//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// failed ends the WQE at hand with an error as soon as it is the first of its batch.
func (e *Engine) failed(qp *hca.QP, w *wqe, syndrome uint8) verdict {
	if e.b.wqes > 0 {
		return alone
	}
	e.failWQE(qp, w, syndrome)
	return halt
}

// failWQE ends the WQE at the tail with an error and stops the queue. The batch is empty.
func (e *Engine) failWQE(qp *hca.QP, w *wqe, syndrome uint8) {
	r := &qp.Run
	if e.Hooks.Trace != nil {
		e.traceWQE(qp, w)
	}
	if qp.SendCQ != nil && !w.own {
		p := e.cqe(qp.SendCQ, qp, cqeReqErr, qp.UIdx, w.opcode, w.idx)
		p.fail(syndrome, vendorSyndrome[syndrome])
	}
	r.Tail += w.blocks
	r.Count++
	r.Asked, r.Tries, r.RNRTries = false, 0, 0
	r.Signaled = r.Tail
	e.commit()
	if qp.DC.HasStreams && streamFailed(qp, w, syndrome) {
		return
	}
	if !transportOf(qp.Type).reliable && qp.State != hca.Err {
		from := qp.State
		qp.State = hca.SQE // receives go on
		e.QPModified(qp, from, hca.SQE)
		return
	}
	e.toErr(qp)
}

// badMemory ends the WQE at the tail whose memory is not there: its own program's, which a send gathers from and a
// READ scatters to, or the responder's.
func (e *Engine) badMemory(qp *hca.QP, side int) {
	if e.w.own {
		e.begin(qp)
		e.failWQE(qp, &e.w, synLocalProt)
		return
	}
	if !e.load(qp, qp.Run.Tail) || e.w.parse(qp.Type) != "" {
		return
	}
	w := &e.w
	peer, srq := e.b.peer, e.b.srq
	local := side == badSource
	if w.is&(isRead|isAtomic) != 0 {
		local = !local
	}
	gone := e.b.err == guest.ErrGone
	if !gone && !e.paged {
		owner := qp.Mem
		switch {
		case local || peer == nil:
		case srq != nil: // with XRC it may be of another process than the QP
			owner = srq.Mem
		default:
			owner = peer.Mem
		}
		e.strict.memoryGone(qp, w, owner)
	}
	if e.paged {
		e.pageOut(qp, w, peer)
	}
	e.begin(qp)
	switch {
	case gone && local: // its context is released in a moment
	case gone && transportOf(qp.Type).reliable:
		e.noAnswer(qp, w)
	case local:
		e.failWQE(qp, w, synLocalProt)
	case gone || peer == nil || qp.Type == hca.UD || qp.Type == hca.RawPacket:
		e.finish(qp, w, 0, 0)
		e.commit()
	case w.is&isSend != 0 && w.is&isWrite == 0:
		e.refuse(qp, w, peer, srq, synRemoteOp, synLocalProt)
	default:
		e.refuse(qp, w, peer, srq, synRemoteAccess, 0)
	}
}

// pageOut follows pages of regions on demand that the program has given back.
func (e *Engine) pageOut(qp *hca.QP, w *wqe, peer *hca.QP) {
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
	qp.Fatal()
	e.toErr(qp)
}
