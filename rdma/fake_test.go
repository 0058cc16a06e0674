package rdma

import (
	"math"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// fakeLinkOf returns a connection that never started: what it would send stays in its queues.
func fakeLinkOf(peer wire.Hello, kind wire.ConnKind, ctl *link.Control) *link.Link {
	e := &link.Shard{Engine: &link.Engine{Pool: fakePool()}, Options: link.EngineOptions{Block: int(peer.Block)},
		Most: link.MostSmall, Progress: progress.New(nil, progress.Options{}),
		Blocks: fakeBlocks(link.Headroom+int(peer.Block), 8*link.StageMost)}
	e.Progress.Stop() // without a CQ: goroutines that wait only sleep
	l := link.New(e, kind, link.Options{}, ctl)
	l.Peer = peer
	return l
}

// fakeBlocks are n blocks in memory that no device has.
func fakeBlocks(size, n int) *blocks.Set {
	slab, mem := int64(n*size), inmem.New()
	return blocks.NewSet(blocks.Config{Block: size, Slab: slab, Most: slab, Sets: 1,
		Budget: blocks.NewBudget(slab, slab), Short: func() {},
		Register: func(n int) (blocks.Memory, error) { return mem.Register(make([]byte, n), ibv.LocalWrite), nil }})
}

// fakeMessage returns a message of l that has arrived.
func fakeMessage(l *link.Link, p []byte, imm uint32, hasImm bool) Message {
	m := link.NewMessage(l)
	m.N, m.Buf, m.Imm, m.HasImm = len(p), p, imm, hasImm
	return messageOf(m)
}

// fakeHost is the engine of a pool whose memory no device has.
type fakeHost struct{ pool.Host }

func (fakeHost) Alloc(n int) (nic.Memory, error) {
	return inmem.New().Register(make([]byte, n), ibv.LocalWrite), nil
}

func fakePool() *pool.Pool {
	return pool.New(fakeHost{}, pool.Options{Memory: math.MaxInt32, Slab: 1 << 16,
		Budget: blocks.NewBudget(math.MaxInt32, 1<<16)})
}

// fakeBuffer returns a buffer of 64 bytes.
func fakeBuffer(p *pool.Pool) *Buffer {
	h, err := p.Get(64)
	if err != nil {
		panic(err)
	}
	return &Buffer{h}
}

// fakePinned is the memory of a buffer of 64 bytes that its owner and a lease have.
func fakePinned(p *pool.Pool) *pool.Buf {
	b := fakeBuffer(p).get()
	b.Pin()
	return b
}
