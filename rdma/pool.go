package rdma

import (
	"context"

	"github.com/pureverbs/pureverbs/rdma/internal/pool"
)

// Pool has the buffers of an engine: memory that is registered for longer than a message is under
// way. It gives them out in sizes of powers of two; those beyond 4 MiB are registered one by one.
// EngineOptions.Memory bounds them together with the blocks.
//
// It belongs to its Engine and is safe for concurrent use.
type Pool struct{ p *pool.Pool }

// Pool returns the engine's buffers.
func (e *Engine) Pool() *Pool { return &e.view }

// Get returns a buffer of n bytes with arbitrary content. If the engine's memory is spent, the error matches
// ErrNoMemory.
func (p *Pool) Get(n int) (*Buffer, error) {
	b, err := p.get(n)
	if err != nil {
		return nil, err
	}
	return &b, nil
}

// get is not inlined, so that Get is: then the Buffer usually is on the caller's stack.
//
//go:noinline
func (p *Pool) get(n int) (Buffer, error) {
	h, err := p.p.Get(n)
	return Buffer{h}, err
}

// GetWait is Get, but while the engine's memory is spent it waits until some is given back. It does not wait for memory
// that the device does not register, or for more than buffers can ever have: that error matches ErrNoMemory.
func (p *Pool) GetWait(ctx context.Context, n int) (*Buffer, error) {
	b, err := p.getWait(ctx, n)
	if err != nil {
		return nil, err
	}
	return &b, nil
}

// getWait is not inlined, as get.
//
//go:noinline
func (p *Pool) getWait(ctx context.Context, n int) (Buffer, error) {
	h, err := p.p.GetWait(ctx, n)
	return Buffer{h}, err
}

// Register makes a buffer of the caller's memory, which stays pinned until the device has no use of the buffer any
// more. It does not count as the engine's memory. The program may read and write the memory, also while it is lent (see
// Lease), except while the device uses it: it must not write what SendBuffer or Region.Write sends, nor touch what
// Region.Read fills, before that has completed. Do not register for each message: that costs more than copying it (1
// MiB, emulated adapter: 62 and 46 µs).
func (p *Pool) Register(mem []byte) (*Buffer, error) {
	h, err := p.p.Register(mem)
	if err != nil {
		return nil, err
	}
	return &Buffer{h}, nil
}

// Buffer is registered memory for a message that is sent without a copy.
//
// It belongs to the caller that got it, until Release or a method that takes it over, such as Conn.SendBuffer. After
// that its methods panic. It is not safe for concurrent use.
type Buffer struct{ h pool.Handle }

// Bytes returns the memory. It is valid until the buffer is released or given away.
func (b *Buffer) Bytes() []byte { return b.h.Bytes() }

// Truncate makes the buffer n bytes long; n is at most what Get was asked for.
func (b *Buffer) Truncate(n int) { b.h.Truncate(n) }

// Release gives the memory back, as soon as the device has no use of it any more. A second Release panics.
func (b *Buffer) Release() { b.h.Release() }

// get returns the memory. A nil Buffer has none.
func (b *Buffer) get() *pool.Buf {
	if b == nil {
		return nil
	}
	return b.h.Get()
}
