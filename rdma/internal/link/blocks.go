package link

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
)

// Block belongs to the free list, to a receive, to a connection's queue of frames, or to a send that is under way.
type Block = blocks.Block

const (
	SlabSize = 4 << 20
	Headroom = blocks.Headroom

	// CompactFrame is the most payload of a frame to a connection that begins when many have begun.
	CompactFrame = 2 << 10

	// ControlBlocks are posted in addition to those that are granted, for frames that take no credit. Without an SRQ it
	// is ownBlocks for each connection. If they are not enough, the peer's adapter tries again.
	ControlBlocks = 16
	OwnBlocks     = 2

	// strictBlocks is the same where no adapter tries again: all that a peer may send without a credit before it has
	// handled a frame, namely three LIMITs, two about leases, one LOWER and one reply, the first PING and the last one,
	// FIN and RESET.
	strictBlocks = 11
)

// newBlocks makes the blocks of a shard, without memory.
func (e *Shard) newBlocks() *blocks.Set {
	piece := CompactFrame
	if e.base != nil {
		piece = 0 // MaxConns is how many streams have blocks
	}
	return blocks.NewSet(blocks.Config{Piece: piece, Block: e.Stride, Slab: e.slabBytes,
		Most:   e.Options.Memory / int64(e.Options.Pollers),
		Budget: e.budget, Sets: e.Options.Pollers, Register: e.allocSlab, Trim: e.Engine.trimNow,
		Short: func() { Wake(e.Engine.short) }})
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

// Wake puts a token into a channel that has room for one.
func Wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
