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
func (e *Engine) read(x *exchange) verdict {
	b, w := &e.b, x.w
	inCQE := x.resultInCQE()
	e.dst = append(e.dst[:0], e.src...)
	e.src = append(e.src[:0], x.target...)
	if inCQE {
		if b.wqes > 0 {
			return alone
		}
		if !b.small(e.src) {
			e.badMemory(x.qp, badSource)
			return halt
		}
	} else if v := e.carry(x.qp, w, x.mem, x.qp.Mem, w.n); v != proceed {
		return v
	}
	e.answered(x, inCQE)
	return executed
}

// answered completes a request whose answer carried data; with inCQE that goes from b.tiny into the completion.
func (e *Engine) answered(x *exchange, inCQE bool) {
	x.peer.Run.EPSN = (x.peer.Run.EPSN + x.packets) & 0xffffff
	p := e.finish(x.qp, x.w, x.w.n, x.packets)
	if p != nil && inCQE {
		p.inline(e.b.tiny[:x.w.n])
	}
}
