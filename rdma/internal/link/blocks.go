package link

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
)

// Block belongs to the free list, to a receive, to a connection's queue of frames, or to a send that is under way.
type Block = blocks.Block

// newBlocks makes the blocks of a shard, without memory.
func (e *Shard) newBlocks() *blocks.Set {
	piece := CompactFrame
	if e.base != nil {
		piece = 0 // MaxConns is how many streams have blocks
	}
	return blocks.NewSet(blocks.Config{Piece: piece, Block: e.Stride, Slab: e.slabBytes,
		Most:   e.Options.Memory / int64(e.Options.Pollers),
		Budget: e.budget, Sets: e.Options.Pollers, Register: e.allocSlab, Trim: e.Engine.trimNow,
		Short: func() { progress.Token(e.Engine.short) }})
}

// allocSlab registers a slab, which is used as a whole, from its beginning.
func (e *Shard) allocSlab(n int) (blocks.Memory, error) {
	mem := e.Options.MemOptions
	if mem.HugePages == ibv.HugeNone {
		mem.HugePages = ibv.HugeTry
	}
	return e.Engine.NIC.Alloc(n, ibv.LocalWrite, &mem)
}

// FrameMost is the most payload of a frame that a connection accepts.
func (e *Shard) FrameMost(kind blocks.Kind) int {
	if kind == blocks.Compact {
		return CompactFrame
	}
	return e.Options.Block
}
