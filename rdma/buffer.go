package rdma

import (
	"fmt"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
)

// Buffer is registered memory for a message that is sent without a copy.
//
// It belongs to the caller that got it, until Release or a method that takes it over, such as Conn.SendBuffer. Its use
// after that panics, or finds the memory of another buffer. It is not safe for concurrent use.
type Buffer struct {
	p     *Pool
	mr    *ibv.MR
	slab  *slab  // nil if the MR is the buffer's own
	mem   []byte // with the headroom
	start int    // of the payload: headroom, or 0 for memory of the caller
	addr  uint64 // of the payload
	size  int    // as it was asked for
	n     int
	given atomic.Bool  // released, or given away
	pins  atomic.Int32 // 1 for the owner, and 1 for each use by the device
}

// reset gives b to a new owner, with n bytes.
func (b *Buffer) reset(n int) *Buffer {
	b.size, b.n = n, n
	b.pins.Store(1)
	b.given.Store(false)
	return b
}

// Bytes returns the memory. It is valid until the buffer is released or given away.
func (b *Buffer) Bytes() []byte {
	b.check()
	return b.mem[b.start : b.start+b.n : b.start+b.n]
}

// Truncate makes the buffer n bytes long; n is at most what Get was asked for.
func (b *Buffer) Truncate(n int) {
	b.check()
	if n < 0 || n > b.size {
		panic(fmt.Sprintf("rdma: Truncate(%d) of a buffer of %d bytes", n, b.size))
	}
	b.n = n
}

// Release gives the memory back, as soon as the device has no use of it any more.
func (b *Buffer) Release() {
	b.giveAway()
	if b.pins.Add(-1) == 0 {
		b.p.put(b)
	}
}

func (b *Buffer) check() {
	if b.given.Load() {
		panic("rdma: the buffer was released")
	}
}

// giveAway ends the owner's use. The owner's pin is the caller's.
func (b *Buffer) giveAway() {
	if b.given.Swap(true) {
		panic("rdma: the buffer was released")
	}
}

// pin keeps the memory registered and out of the pool until unpin. The caller has a pin, or is the owner.
func (b *Buffer) pin() { b.pins.Add(1) }

// unpin undoes pin, and ends the life of a buffer that was given away. The caller may hold the lock of a
// connection.
func (b *Buffer) unpin() {
	switch {
	case b.pins.Add(-1) > 0:
	case b.slab == nil: // closing an MR takes a while
		b.p.closing.Go(func() { b.p.put(b) })
	default:
		b.p.put(b)
	}
}

// sge returns n bytes from off, which may be in the headroom.
func (b *Buffer) sge(off, n int) ibv.SGE {
	return ibv.SGE{Addr: b.addr + uint64(off), Length: uint32(n), LKey: b.mr.LKey()}
}
