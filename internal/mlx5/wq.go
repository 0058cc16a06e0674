package mlx5

// Completions of a WQ, a receive queue without a QP, have the tag of a steering rule where those of QPs have a number.
// Therefore a CQ with a WQ has nothing else. It looks for QPs in a table of none, and all receives that it finds are
// the WQ's: the QP that represents it gets the tag as its number, so that the poller treats a run of completions of one
// tag as it does those of any other QP.

// noQPs is the table of a CQ that completes receives of a WQ.
var noQPs Table

// AddWQ makes the receive queue that c describes the CQ's only queue, and returns it.
func (cq *CQ) AddWQ(c *RQConfig) *RQ {
	cq.others, cq.qps = cq.qps, &noQPs
	cq.xrc = NewQP(nobody.Num, false, nil, c, nil)
	return &cq.xrc.RQ
}

// ResetWQ empties the WQ, which the device has reset, and removes its completions. No goroutine is posting.
func (cq *CQ) ResetWQ() {
	cq.LeaveXRC()
	cq.purge(func(tail uint64) bool { return fromPeer(uint8(tail) >> 4) })
	cq.xrc.RQ.reset()
}

// DropWQ removes the WQ, whose ring is gone, and its completions.
func (cq *CQ) DropWQ() {
	cq.ResetWQ()
	cq.xrc = nil
	cq.qps, cq.others = cq.others, nil
}
