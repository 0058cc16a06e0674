//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// send executes a SEND between connected QPs, with immediate, with invalidate or plain.
func (rs *responder) send(x *exchange) verdict {
	b, w := rs.b, x.w
	if x.srq != nil && x.srq.Tags > 0 {
		return rs.tagged(x)
	}
	if v := rs.nextReceive(x); v != proceed {
		return v
	}
	if w.opcode == opSendInval {
		if b.wqes > 0 {
			return alone
		}
		if !invalidate(x.peer, w.imm) {
			return rs.refused(x, synRemoteAccess, 0)
		}
	}
	if v := rs.scatter(x, x.pd, x.recv.segs, w.n); v != proceed {
		return v
	}
	inCQE := x.payloadInCQE()
	if inCQE {
		if b.dirty(rs.lists.src) {
			return alone
		}
		if !b.small(rs.lists.src) {
			if b.wqes > 0 {
				return alone
			}
			rs.req.badMemory(x.qp, badSource)
			return halt
		}
	} else if v := rs.req.carry(x.qp, w, x.qp.Mem, x.mem, w.n); v != proceed {
		return v
	}
	rs.received(x, sendCompletion(w), inCQE)
	rs.req.acknowledged(x)
	return executed
}

// payloadInCQE reports whether the payload of a SEND goes into the responder's completion.
func (x *exchange) payloadInCQE() bool {
	n := x.w.n
	return n > 0 && n <= 64 && x.cq != nil && n <= uint64(x.cq.CQESize/2) &&
		x.peer.Flags&qpScatterCQE != 0 && x.peer.Type != hca.XRCRecv && (x.peer.Type != hca.DCT || x.cq.CQESize == 128)
}
