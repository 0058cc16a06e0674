package ibv

import "fmt"

// OpAtomicWrite writes 8 bytes atomically. C: IBV_WR_ATOMIC_WRITE.
const OpAtomicWrite Opcode = 15

// AtomicWrite writes 8 bytes to memory of the peer, at a multiple of 8, so that no reader sees only
// some of them.
func (b *Batch) AtomicWrite(id uint64, flags SendFlags, to RemoteAddr, value [8]byte) {
	wr := b.next(id, OpAtomicWrite, flags, SGE{})
	wr.Remote = to
	b.setInline(wr, value[:])
}

// checkAtomicWrite reports what is wrong with a work request of OpAtomicWrite.
//
//kind:check OpAtomicWrite
func checkAtomicWrite(_ *QP, wr *SendWR) error {
	switch {
	case len(wr.SGEs) > 0 || wr.Flags&Inline != 0:
		return noListOrFlag(wr)
	case len(wr.Inline) != 8:
		return &ArgError{Arg: "Inline", Got: fmt.Sprintf("%d bytes", len(wr.Inline)),
			Want: "the 8 bytes to write with " + wr.Opcode.String()}
	}
	return nil
}
