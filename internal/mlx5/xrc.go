package mlx5

// The receives of an XRC SRQ complete on the SRQ's own CQ. Their entries name the QP that the message came in by, which
// may belong to another process. The field for the SRQ holds a number that libmlx5 keeps to itself. Therefore a CQ
// takes one XRC SRQ, and receives of QPs that are not in the table are that SRQ's. One QP represents all of them, so
// that the poller treats a run of them as it does those of any other QP.

// AddXRC makes s the XRC SRQ of the CQ. There must be none yet.
func (cq *CQ) AddXRC(s *SRQ) { cq.xrc = NewQP(nobody.Num, false, nil, nil, s) }

// LeaveXRC forgets whose receives the XRC SRQ got last. It must be called when the CQ is empty and before a QP that
// uses the CQ is added to the table, since the QP may have the number of one that is gone.
func (cq *CQ) LeaveXRC() {
	if cq.xrc != nil {
		cq.Leave(cq.xrc)
		cq.xrc.Num = nobody.Num
	}
}

// DropXRC removes the XRC SRQ, whose ring is gone, and its completions. No QP may be suspended.
func (cq *CQ) DropXRC() {
	cq.LeaveXRC()
	cq.xrc = nil
	cq.purge(func(tail uint64) bool {
		return fromPeer(uint8(tail)>>4) && cq.qps.Find(uint32(tail>>32)&numberMask) == nil
	})
}

// fromPeer reports whether an entry of this opcode completes a receive.
func fromPeer(op uint8) bool { return op-1 < cqeRespSendInv || op == cqeRespErr }
