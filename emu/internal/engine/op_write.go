//go:build linux

package engine

// write executes an RDMA WRITE, with immediate or without.
func (e *Engine) write(x *exchange) verdict {
	imm := x.w.is&isImm != 0
	if imm {
		if v := e.nextReceive(x); v != proceed {
			return v
		}
	}
	e.dst = e.dst[:0]
	if x.w.n > 0 {
		e.dst = append(e.dst, x.target...)
	}
	if v := e.carry(x.qp, x.w, x.qp.Mem, x.mem, x.w.n); v != proceed {
		return v
	}
	if imm {
		e.received(x, cqeRespWrImm, false)
	}
	e.acknowledged(x)
	return executed
}
