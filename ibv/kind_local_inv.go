package ibv

// OpLocalInv invalidates a local memory window or region.
// C: IBV_WR_LOCAL_INV.
const OpLocalInv Opcode = 7

// LocalInv invalidates a local memory window or fast-registered MR.
func (b *Batch) LocalInv(id uint64, flags SendFlags, rkey uint32) {
	wr := b.next(id, OpLocalInv, flags, SGE{})
	wr.SGEs, wr.InvalidateRKey = nil, rkey
}

// checkLocalInv reports what is wrong with a work request of OpLocalInv.
//
//kind:check OpLocalInv
func checkLocalInv(_ *QP, wr *SendWR) error { return checkBare(wr) }
