package rdma

import (
	"fmt"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
)

// Buffer is registered memory for a message that is sent without a copy.
//
// It belongs to the caller that got it, until Release or a method that takes it over, such as Conn.SendBuffer. After
// that its methods panic. It is not safe for concurrent use.
type Buffer struct {
	b   *bufMem
	gen uint64 // of b's uses
}

// bufMem is the memory of a Buffer. Later buffers use it again.
type bufMem struct {
	gen   atomic.Uint64 // counts uses: a Buffer with another number was released, or given away
	pins  atomic.Int32  // 1 for the owner, and 1 for each use by the device
	p     *Pool
	mr    nic.Memory
	lkey  uint32 // of mr
	slab  *slab  // nil if the MR is the buffer's own
	mem   []byte // with the headroom
	start int    // of the payload: headroom, or 0 for memory of the caller
	addr  uint64 // of the payload
	size  int    // as it was asked for
	n     int

	opened   *leak.Record // with leak.Hot
	released string       // the place, of what stands for a released buffer with leak.Hot
}

// handOut gives b to a new owner, with n bytes. The methods that return a *Buffer are small enough to be inlined, so
// that it usually is on the caller's stack.
func (b *bufMem) handOut(n int) Buffer {
	b.size, b.n = n, n
	b.pins.Store(1)
	if leak.Hot() {
		b.opened = leak.Track(fmt.Sprintf("buffer of %d bytes", n))
	}
	return Buffer{b, b.gen.Load()}
}

// Bytes returns the memory. It is valid until the buffer is released or given away.
func (h *Buffer) Bytes() []byte { return h.get().bytes() }

func (b *bufMem) bytes() []byte { return b.mem[b.start : b.start+b.n : b.start+b.n] }

// Truncate makes the buffer n bytes long; n is at most what Get was asked for.
func (h *Buffer) Truncate(n int) {
	b := h.get()
	if n < 0 || n > b.size {
		panic(fmt.Sprintf("rdma: Truncate(%d) of a buffer of %d bytes", n, b.size))
	}
	b.n = n
}

// Release gives the memory back, as soon as the device has no use of it any more. A second Release panics.
func (h *Buffer) Release() {
	b := h.take()
	if b.pins.Add(-1) == 0 {
		b.p.put(b)
	}
}

// get returns what h refers to. A nil Buffer refers to nothing.
func (h *Buffer) get() *bufMem {
	switch {
	case h == nil:
		return nil
	case h.b == nil || h.b.gen.Load() != h.gen:
		h.stale()
	}
	return h.b
}

// take ends the owner's use. The owner's pin is the caller's.
func (h *Buffer) take() *bufMem {
	if h.b == nil || !h.b.gen.CompareAndSwap(h.gen, h.gen+1) {
		h.stale()
	}
	b := h.b
	if leak.Hot() {
		b.opened.Done()
		h.b = &bufMem{released: releasedHere()}
		h.b.gen.Store(h.gen + 1)
	}
	return b
}

// stale panics.
func (h *Buffer) stale() {
	place := ""
	if h.b != nil {
		place = h.b.released
	}
	panic("rdma: the buffer was released" + firstRelease(place))
}

// pin keeps the memory registered and out of the pool until unpin. The caller has a pin, or is the owner.
func (b *bufMem) pin() { b.pins.Add(1) }

// unpin undoes pin, and ends the life of a buffer that was given away. The caller may hold the lock of a
// connection.
func (b *bufMem) unpin() {
	switch {
	case b.pins.Add(-1) > 0:
	case b.slab == nil: // closing an MR takes a while
		b.p.closing.Go(func() { b.p.put(b) })
	default:
		b.p.put(b)
	}
}

// sge returns n bytes from off, which may be in the headroom.
func (b *bufMem) sge(off, n int) ibv.SGE {
	return ibv.SGE{Addr: b.addr + uint64(off), Length: uint32(n), LKey: b.lkey}
}
