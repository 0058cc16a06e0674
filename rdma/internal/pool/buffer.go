package pool

import (
	"fmt"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
)

// Handle is an owner's use of a buffer. It is not safe for concurrent use.
type Handle struct {
	b   *Buf
	gen uint64 // of b's uses
}

// Buf is the memory of a Handle. Later owners use it again.
type Buf struct {
	gen   atomic.Uint64 // counts uses: a Handle with another number was released, or given away
	pins  atomic.Int32  // 1 for the owner, and 1 for each use by the device
	Pool  *Pool
	MR    nic.Memory // that it is a part of
	LKey  uint32     // of MR
	Mem   []byte     // with the headroom
	Addr  uint64     // of the payload
	slab  *slab      // nil if the MR is the buffer's own
	start int        // of the payload: the headroom, or 0 for memory of the caller
	size  int        // as it was asked for
	n     int

	opened   *leak.Record // with leak.Hot
	released string       // the place, of what stands for a released buffer with leak.Hot
}

// handOut gives b to a new owner, with n bytes.
func (b *Buf) handOut(n int) Handle {
	b.size, b.n = n, n
	b.pins.Store(1)
	if leak.Hot() {
		b.opened = leak.Track(fmt.Sprintf("buffer of %d bytes", n))
	}
	return Handle{b, b.gen.Load()}
}

// Bytes returns the memory. It is valid until the buffer is released or given away.
func (h *Handle) Bytes() []byte { return h.Get().Bytes() }

// Bytes returns the payload.
func (b *Buf) Bytes() []byte { return b.Mem[b.start : b.start+b.n : b.start+b.n] }

// Truncate makes the buffer n bytes long; n is at most what Get was asked for.
func (h *Handle) Truncate(n int) {
	b := h.Get()
	if n < 0 || n > b.size {
		panic(fmt.Sprintf("rdma: Truncate(%d) of a buffer of %d bytes", n, b.size))
	}
	b.n = n
}

// Release gives the memory back, as soon as the device has no use of it any more. A second Release panics.
func (h *Handle) Release() {
	b := h.Take()
	if b.pins.Add(-1) == 0 {
		b.Pool.put(b)
	}
}

// Get returns what h refers to.
func (h *Handle) Get() *Buf {
	if h.b == nil || h.b.gen.Load() != h.gen {
		h.stale()
	}
	return h.b
}

// Take ends the owner's use. The owner's pin is the caller's.
func (h *Handle) Take() *Buf {
	if h.b == nil || !h.b.gen.CompareAndSwap(h.gen, h.gen+1) {
		h.stale()
	}
	b := h.b
	if leak.Hot() {
		b.opened.Done()
		h.b = &Buf{released: leak.Here()}
		h.b.gen.Store(h.gen + 1)
	}
	return b
}

// stale panics.
func (h *Handle) stale() {
	place := ""
	if h.b != nil {
		place = h.b.released
	}
	panic("rdma: the buffer was released" + leak.FirstAt(place))
}

// Pin keeps the memory registered and out of the pool until Unpin. The caller has a pin, or is the owner.
func (b *Buf) Pin() { b.pins.Add(1) }

// Unpin undoes Pin, and ends the life of a buffer that was given away. The caller may hold the lock of a
// connection.
func (b *Buf) Unpin() {
	switch {
	case b.pins.Add(-1) > 0:
	case b.slab == nil: // closing an MR takes a while
		b.Pool.Closing.Go(func() { b.Pool.put(b) })
	default:
		b.Pool.put(b)
	}
}

// SGE returns n bytes from off, which may be in the headroom.
func (b *Buf) SGE(off, n int) ibv.SGE {
	return ibv.SGE{Addr: b.Addr + uint64(off), Length: uint32(n), LKey: b.LKey}
}

// Len returns the length of the payload.
func (b *Buf) Len() int { return b.n }

// Gen returns the number of the use: it changes with each.
func (b *Buf) Gen() uint64 { return b.gen.Load() }

// Headed reports whether there is space for a header in front of the payload: Mem begins with it.
func (b *Buf) Headed() bool { return b.start == blocks.Headroom }

// Gen returns the number of the use that h is for.
func (h *Handle) Gen() uint64 { return h.gen }
