package pool

import (
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// Host is the engine that a pool belongs to.
type Host interface {
	// Alloc registers n bytes, Register memory of the caller.
	Alloc(n int) (nic.Memory, error)
	Register(mem []byte) (nic.Memory, error)
	// Trim frees memory that nobody uses, and reports whether there was some. With wait it also frees what is locked at
	// the moment, and returns after others that trim.
	Trim(wait bool) bool
	// Hurry asks for the completions of all sends from buffers.
	Hurry()
	// Wait waits for ch.
	Wait(b turn.Bound, ch <-chan struct{}) error
	// Kept returns how many bytes of blocks are kept in any case.
	Kept() int64
	// Name returns the name of the device.
	Name() string
}

// Options are those of a pool.
type Options struct {
	Memory int64 // most bytes of blocks and buffers
	Slab   int   // most bytes that are registered for several buffers
	Huge   bool  // these have huge pages
	Budget *blocks.Budget
}
