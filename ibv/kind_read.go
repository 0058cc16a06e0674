package ibv

// OpRead reads the peer's memory. C: IBV_WR_RDMA_READ.
const OpRead Opcode = 4

// Read reads memory of the peer into s.
func (b *Batch) Read(id uint64, flags SendFlags, s SGE, from RemoteAddr) {
	b.brief(id, OpRead, flags, s).remote = from
}

// checkRead reports what is wrong with a read.
//
//kind:check OpRead
func checkRead(qp *QP, wr *SendWR) error {
	if most := qp.dev.attr.MaxSGERead; len(wr.SGEs) > most && most > 0 {
		return &LimitError{What: "sge", Asked: uint64(len(wr.SGEs)), Limit: uint64(most),
			Where: "a read on " + qp.dev.Name() + " (DeviceAttr.MaxSGERead)"}
	}
	if qp.inCQE.checksTargets(qp.dev) && lengthOf(wr.SGEs) <= mostCarried {
		return qp.dev.checkTarget(wr.SGEs, false)
	}
	return nil
}
