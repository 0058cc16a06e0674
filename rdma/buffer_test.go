package rdma

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// TestBufferReleased: every method of a buffer panics after Release, also when another buffer uses the memory. Of
// several goroutines that release it, one succeeds.
func TestBufferReleased(t *testing.T) {
	p := fakePool()
	for range 100 {
		b := fakeBuffer(p)
		b.Release()
		other := fakeBuffer(p)
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
		if released.Load() != 1 || p.InUse() != 0 {
			t.Fatalf("released %d times, %d buffers are out", released.Load(), p.InUse())
		}
	}
	panics(t, "Release of a zero Buffer", new(Buffer).Release)
}

// TestTransferReleased: a transfer whose buffer was released before Start is refused, and pins nothing.
func TestTransferReleased(t *testing.T) {
	l := fakeLink(0)
	r := &Region{l: l, n: 64, access: allAccess, done: make(chan struct{})}
	b := fakeBuffer(l.Shard.Engine.Pool)
	was := b.get()
	x := r.Transfer()
	x.Write(b, 0, 64, 0)
	b.Release()
	var arg *ibv.ArgError
	if err := x.Start(t.Context()); !errors.As(err, &arg) {
		t.Errorf("Start: %v", err)
	}
	other := fakeBuffer(l.Shard.Engine.Pool)
	if other.get() != was {
		t.Fatal("the next buffer has other memory")
	}
	if other.Release(); l.Shard.Engine.Pool.InUse() != 0 {
		t.Error("the next buffer has more pins than its owner's")
	}
}
