package mlx5

// What the tests of this package say in one call.

// RDMA builds a write or read of one SGE, as ibv does.
func (q *SQ) RDMA(id uint64, op, flags, imm uint32, r *RemoteAddr, s *SGE) bool {
	return q.one(SendWR{ID: id, Opcode: op, Flags: flags, Imm: imm, Remote: *r}, s)
}

// Send builds a send of one SGE, as ibv does.
func (q *SQ) Send(id uint64, op, flags, imm uint32, s *SGE) bool {
	return q.one(SendWR{ID: id, Opcode: op, Flags: flags, Imm: imm, InvalidateRKey: imm}, s)
}

func (q *SQ) one(wr SendWR, s *SGE) bool {
	sges := [1]SGE{*s}
	wr.SGEs = sges[:]
	wrs := [1]SendWR{wr}
	plan := plans[wr.Opcode&15]
	if (plan&(planImm|planInv) != 0 || wr.Imm == 0) && q.Build(wrs[:], 1<<wr.Opcode, 0) == 1 {
		return true
	}
	segs := 1
	if plan&planRDMA != 0 {
		segs++
	}
	if !q.Begin(wr.Opcode, wr.Flags, wr.Imm, segs) {
		return false
	}
	if plan&planRDMA != 0 {
		q.Remote(wr.Remote.Addr, wr.Remote.RKey)
	}
	q.Data(s)
	q.Commit(wr.ID)
	return true
}

// Outstanding is the number of work requests that are built and not known to be completed.
func (q *SQ) Outstanding() uint32 { return q.head - uint32(q.done.Load()) }

// Since is the number of work requests built since m.
func (q *SQ) Since(m Mark) int { return int(q.head - m.head) }
