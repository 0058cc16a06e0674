package rdma

import (
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
)

// Buffer is TEMPORARY.
type Buffer struct {
	e  *Engine
	mr *ibv.MR

	mu       sync.Mutex
	pins     int
	released bool
}

func newBuffer(e *Engine, n int) (*Buffer, error) {
	mr, err := e.pd.AllocMR(n, ibv.LocalWrite, nil)
	if err != nil {
		return nil, err
	}
	return &Buffer{e: e, mr: mr}, nil
}

func (b *Buffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released {
		panic("rdma: the buffer was released")
	}
	return b.mr.Bytes()
}

func (b *Buffer) pin() { b.mu.Lock(); b.pins++; b.mu.Unlock() }
func (b *Buffer) unpin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pins--; b.pins == 0 && b.released {
		_ = b.mr.Close()
	}
}

func (b *Buffer) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released = true
	if b.pins == 0 {
		_ = b.mr.Close()
	}
}

func (b *Buffer) sge(at, n int) ibv.SGE { return b.mr.SGE(at, n) }
