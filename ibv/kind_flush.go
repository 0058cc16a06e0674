package ibv

import "math"

// OpFlush makes earlier writes visible or persistent. C: IBV_WR_FLUSH.
const OpFlush Opcode = 14

// Flush makes earlier writes to memory of the peer reach the place that r names, and then completes.
func (b *Batch) Flush(id uint64, flags SendFlags, at RemoteAddr, r FlushRange) {
	wr := b.next(id, OpFlush, flags, SGE{})
	wr.SGEs, wr.Remote = nil, at
	b.setFlush(wr, &r)
}

// checkFlush reports what is wrong with a work request of OpFlush.
//
//kind:check OpFlush
func checkFlush(_ *QP, wr *SendWR) error {
	switch r := wr.Flush; {
	case len(wr.SGEs) > 0 || wr.Flags&Inline != 0:
		return noListOrFlag(wr)
	case wr.Inline != nil:
		return &ArgError{Arg: "Inline", Got: "set", Want: "nothing with " + wr.Opcode.String()}
	case r == nil:
		return &ArgError{Arg: "Flush", Got: "nil", Want: "what to flush"}
	case r.Type == 0 || r.Type&^(FlushToMemory|FlushToPersistence) != 0:
		return &ArgError{Arg: "Flush.Type", Got: r.Type.String(), Want: "FlushToMemory, FlushToPersistence or both"}
	case r.Level > FlushMR:
		return &ArgError{Arg: "Flush.Level", Got: r.Level.String(), Want: "FlushBytes or FlushMR"}
	case r.Length > math.MaxUint32:
		return &LimitError{What: "Flush.Length", Asked: r.Length, Limit: math.MaxUint32, Where: "a 32-bit field"}
	}
	return nil
}
