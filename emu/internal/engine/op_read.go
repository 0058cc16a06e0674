//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// resultInCQE reports whether the result of a READ or an atomic goes into its completion.
func (x *exchange) resultInCQE() bool {
	qp, w := x.qp, x.w
	asked := qp.Flags&qpScatterCQE != 0 && (qp.SigAll || qp.Flags&qpAllowScatter != 0)
	return asked && (qp.Type == hca.RC || qp.Type == hca.DCI) && w.opcode != opMaskedCS && w.opcode != opMaskedFA &&
		w.n > 0 && w.n <= 64 && w.n <= uint64(qp.SendCQ.CQESize/2) && w.flags&flagCEMask >= flagCEAlways
}

// read executes an RDMA READ.
func (rs *responder) read(x *exchange) verdict {
	b, w := rs.b, x.w
	inCQE := x.resultInCQE()
	rs.lists.dst = append(rs.lists.dst[:0], rs.lists.src...)
	rs.lists.src = append(rs.lists.src[:0], x.target...)
	if inCQE {
		if b.wqes > 0 {
			return alone
		}
		if !b.small(rs.lists.src) {
			rs.req.badMemory(x.qp, badSource)
			return halt
		}
	} else if v := rs.req.carry(x.qp, w, x.mem, x.qp.Mem, w.n); v != proceed {
		return v
	}
	rs.answered(x, inCQE)
	return executed
}

// answered completes a request whose answer carried data; with inCQE that goes from b.tiny into the completion.
func (rs *responder) answered(x *exchange, inCQE bool) {
	if p := rs.req.acknowledged(x); p != nil && inCQE {
		p.inline(rs.b.tiny[:x.w.n])
	}
}
