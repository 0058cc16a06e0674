package mlx5

// Memcpy builds a copy of local memory, to the first SGE of wr from the second, and reports whether there was room for
// it. At addr is memory with the key lkey, of 64 bytes, for what the device notes. The caller has checked wr.
//
// C: mlx5_wr_memcpy (rdma-core v44.0, providers/mlx5/qp.c:3428).
func (q *SQ) Memcpy(wr *SendWR, lkey uint32, addr uint64) bool {
	if !q.Begin(wr.Opcode, wr.Flags, 0, 3) {
		return false
	}
	q.wqe.mod = mmoDMA
	q.zeros(1, uint64(lkey), addr)
	putData(q.next(), &wr.SGEs[1], wr.SGEs[1].Length)
	putData(q.next(), &wr.SGEs[0], wr.SGEs[0].Length)
	q.Commit(wr.ID)
	return true
}
