package link

import (
	"math"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// What follows is for the tests of packages above this one.

// Fake returns a connection that never started: what it would send stays in its queues.
func Fake(peer wire.Hello, kind wire.ConnKind, ctl *Control) *Link {
	e := &Shard{Engine: &Engine{Pool: pool.Fake()}, Options: EngineOptions{Block: int(peer.Block)}, most: MostSmall,
		Progress: progress.New(nil, progress.Options{}), Blocks: fakeBlocks(Headroom+int(peer.Block), 8*StageMost)}
	e.Progress.Stop() // without a CQ: goroutines that wait only sleep
	l := New(e, kind, Options{}, ctl)
	l.Peer = peer
	return l
}

// fakeBlocks are n blocks in memory that is not registered.
func fakeBlocks(size, n int) *blocks.Set {
	slab, mem := int64(n*size), inmem.New()
	return blocks.NewSet(blocks.Config{Block: size, Slab: slab, Most: slab, Sets: 1,
		Budget: blocks.NewBudget(slab, slab), Short: func() {},
		Register: func(n int) (blocks.Memory, error) { return mem.Register(make([]byte, n), ibv.LocalWrite), nil }})
}

// FakeRecords returns a function that has l have received a frame of such records, unless it has some left. The frame
// is never given back.
func (l *Link) FakeRecords(p []byte) func() {
	b := &Block{Mem: append(make([]byte, Headroom), p...)}
	b.Holders.Store(math.MaxInt32 / 2)
	return func() {
		if l.Reader.Current.b == nil {
			l.Reader.Current = frame{b: b, n: int32(len(p)), flags: wire.FlagPacked}
		}
	}
}

// FakeMessage returns a message of l that has arrived.
func (l *Link) FakeMessage(p []byte, imm uint32, hasImm bool) *Message {
	m := newMessage(l)
	m.N, m.Buf, m.Imm, m.HasImm = len(p), p, imm, hasImm
	return m
}
