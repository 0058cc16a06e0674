package rdma

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// fakePool has one buffer, of 64 bytes.
func fakePool() *Pool {
	p := &Pool{freed: make(chan struct{})}
	s := &slab{all: 1, free: 1}
	p.classes[0].free = []*bufMem{{p: p, slab: s, mem: make([]byte, 64)}}
	return p
}

// take returns the buffer of a fakePool.
func (p *Pool) take() *Buffer {
	h := p.pop(0).handOut(64)
	p.out++
	return &h
}

// TestBufferReleased: every method of a buffer panics after Release, also when another buffer uses the memory. Of
// several goroutines that release it, one succeeds.
func TestBufferReleased(t *testing.T) {
	p := fakePool()
	for range 100 {
		b := p.take()
		b.Release()
		other := p.take()
		panics(t, "Release", b.Release)
		panics(t, "Bytes", func() { b.Bytes() })
		panics(t, "Truncate", func() { b.Truncate(1) })
		panics(t, "Batch.SendBuffer", func() { (&Batch{}).SendBuffer(b) })
		if len(other.Bytes()) != 64 {
			t.Fatalf("another buffer has %d bytes", len(other.Bytes()))
		}
		var released atomic.Int32
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				defer func() { _ = recover() }()
				other.Release()
				released.Add(1)
			})
		}
		all.Wait()
		if released.Load() != 1 || p.out != 0 {
			t.Fatalf("released %d times, %d buffers are out", released.Load(), p.out)
		}
	}
	panics(t, "Release of a zero Buffer", new(Buffer).Release)
}

// TestTransferReleased: a transfer whose buffer was released before Start is refused, and pins nothing.
func TestTransferReleased(t *testing.T) {
	l := fakeLink(0)
	l.e.eng.pool = fakePool()
	r := &Region{l: l, n: 64, access: allAccess, done: make(chan struct{})}
	b := l.e.eng.pool.take()
	x := r.Transfer()
	x.Write(b, 0, 64, 0)
	b.Release()
	var arg *ibv.ArgError
	if err := x.Start(t.Context()); !errors.As(err, &arg) {
		t.Errorf("Start: %v", err)
	}
	if other := l.e.eng.pool.take(); other.b.pins.Load() != 1 {
		t.Errorf("%d pins of the next buffer", other.b.pins.Load())
	}
}
