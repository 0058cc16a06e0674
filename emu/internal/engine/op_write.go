//go:build linux

package engine

// write executes an RDMA WRITE, with immediate or without.
func (rs *responder) write(x *exchange) verdict {
	imm := x.w.is&isImm != 0
	if imm {
		if v := rs.nextReceive(x); v != proceed {
			return v
		}
	}
	rs.lists.dst = rs.lists.dst[:0]
	if x.w.n > 0 {
		rs.lists.dst = append(rs.lists.dst, x.target...)
	}
	if v := rs.req.carry(x.qp, x.w, x.qp.Mem, x.mem, x.w.n); v != proceed {
		return v
	}
	if imm {
		rs.received(x, cqeRespWrImm, false)
	}
	rs.req.acknowledged(x)
	return executed
}
