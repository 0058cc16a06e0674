//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// exchange is a WQE of a connected QP on its way: the requester checks it and finds the responder, the responder
// checks what is asked of it, the opcode moves the data, and both complete it.
type exchange struct {
	// The requester.
	qp        *hca.QP
	w         *wqe
	transport *transport

	// The responder.
	peer    *hca.QP
	srq     *hca.SRQ // where its receives come from, if not from its own queue
	pd      *hca.PD
	mem     guest.Mem // of its process: with XRC the SRQ's
	cq      *hca.CQ   // where its receives complete; nil: nowhere
	uidx    uint32    // what they carry there
	packets uint32
	target  []piece   // of READ, WRITE and atomics: the remote memory
	recv    recvEntry // of SEND and immediates
}

// connected executes a WQE of RC, UC, XRC_SEND or a DCI.
func (e *Engine) connected(qp *hca.QP, w *wqe) verdict {
	x := &e.x
	*x = exchange{qp: qp, w: w, transport: transportOf(qp.Type), target: x.target[:0]}
	if v := e.request(x); v != proceed {
		return v
	}
	if v := e.respond(x); v != proceed {
		return v
	}
	return e.deliver(x)
}

// request is the requester's part before the wire. It leaves the WQE's own memory in e.src.
func (e *Engine) request(x *exchange) verdict {
	qp, w := x.qp, x.w
	var need hca.Access
	if w.is&(isRead|isAtomic) != 0 {
		need = hca.AccessLocalWrite
	}
	list, bad := e.localList(qp, w, e.src[:0], need)
	e.src = list
	switch {
	case bad != 0:
		return e.failed(qp, w, bad)
	case w.n > uint64(qp.Context.Device.Config.Limits.MaxMsgSize), w.is&isAtomic != 0 && w.n != uint64(w.asize):
		return e.failed(qp, w, synLocalLength)
	}
	if x.transport.addressed {
		qp.Run.Peer = e.target(qp, w)
		x.peer = qp.Run.Peer
	} else {
		x.peer = e.peer(qp)
	}
	switch {
	case x.peer != nil && (!x.transport.reliable || x.transport.addressed || x.peer.Run.EPSN == qp.Run.PSN):
		return proceed
	case !x.transport.reliable:
		return e.lost(x)
	case e.b.wqes > 0:
		return alone
	}
	e.noAnswer(qp, w)
	return halt
}

// lost completes a request of an unreliable transport that nobody receives.
func (e *Engine) lost(x *exchange) verdict {
	e.finish(x.qp, x.w, x.w.n, 0)
	return executed
}

// acknowledged completes a request without an answer that carries data.
func (e *Engine) acknowledged(x *exchange) {
	x.peer.Run.EPSN = (x.peer.Run.EPSN + x.packets) & 0xffffff
	e.finish(x.qp, x.w, x.w.n, x.packets)
}
