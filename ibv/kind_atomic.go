package ibv

// OpCompareSwap compares and swaps 8 bytes of the peer's memory, and
// returns the previous value. C: IBV_WR_ATOMIC_CMP_AND_SWP.
const OpCompareSwap Opcode = 5

// OpFetchAdd adds to 8 bytes of the peer's memory, and returns the
// previous value. C: IBV_WR_ATOMIC_FETCH_AND_ADD.
const OpFetchAdd Opcode = 6

// CompareSwap sets 8 bytes of the peer's memory to swap if they equal compare; s, of 8 bytes,
// receives the previous value.
func (b *Batch) CompareSwap(id uint64, flags SendFlags, s SGE, at RemoteAddr, compare, swap uint64) {
	wr := b.next(id, OpCompareSwap, flags, s)
	wr.Remote, wr.CompareAdd, wr.Swap = at, compare, swap
}

// FetchAdd adds to 8 bytes of the peer's memory; s, of 8 bytes, receives the previous value.
func (b *Batch) FetchAdd(id uint64, flags SendFlags, s SGE, at RemoteAddr, add uint64) {
	wr := b.next(id, OpFetchAdd, flags, s)
	wr.Remote, wr.CompareAdd = at, add
}

// checkAtomic reports what is wrong with an atomic.
//
//kind:check OpCompareSwap OpFetchAdd
func checkAtomic(qp *QP, wr *SendWR) error {
	if len(wr.SGEs) != 1 || wr.SGEs[0].Length != 8 {
		return &ArgError{Arg: "SGEs", Got: describeSGEs(wr.SGEs), Want: "one of 8 bytes, for the previous value"}
	}
	if qp.inCQE.checksTargets(qp.dev) {
		return qp.dev.checkTarget(wr.SGEs, false)
	}
	return nil
}
