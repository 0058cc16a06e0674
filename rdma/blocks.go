package rdma

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
)

// block belongs to the free list, to a receive, to a connection's queue of frames, or to a send that is under way.
type block = blocks.Block

const (
	slabSize = 4 << 20
	headroom = blocks.Headroom

	// compactFrame is the most payload of a frame to a connection that begins when many have begun.
	compactFrame = 2 << 10

	// controlBlocks are posted in addition to those that are granted, for frames that take no credit. Without an SRQ it
	// is ownBlocks for each connection. If they are not enough, the peer's adapter tries again.
	controlBlocks = 16
	ownBlocks     = 2

	// strictBlocks is the same where no adapter tries again: all that a peer may send without a credit before it has
	// handled a frame, namely three LIMITs, two about leases, one LOWER and one reply, the first PING and the last one,
	// FIN and RESET.
	strictBlocks = 11
)

// newBlocks makes the blocks of a shard, without memory.
func (e *shard) newBlocks() *blocks.Set {
	piece := compactFrame
	if e.base != nil {
		piece = 0 // MaxConns is how many streams have blocks
	}
	return blocks.NewSet(blocks.Config{Piece: piece, Block: e.stride, Slab: e.slabBytes,
		Most:   e.opt.Memory / int64(e.opt.Pollers),
		Budget: e.budget, Sets: e.opt.Pollers, Register: e.allocSlab, Trim: e.eng.trimNow,
		Short: func() { wake(e.eng.short) }})
}

// allocSlab registers a slab, which is used as a whole, from its beginning.
func (e *shard) allocSlab(n int) (blocks.Memory, error) {
	mem := e.opt.MemOptions
	if mem.HugePages == ibv.HugeNone {
		mem.HugePages = ibv.HugeTry
	}
	return e.eng.nic.Alloc(n, ibv.LocalWrite, &mem)
}

// sgeOf returns the header and the payload of a block, at full length.
func sgeOf(b *block) ibv.SGE {
	return ibv.SGE{Addr: b.HeaderAddr(), Length: b.FrameLen(), LKey: b.LKey}
}

// put returns a block that was sent or not used.
func (e *shard) put(b *block) { e.blocks.Give(b) }

// consumed returns a block that was received.
func (e *shard) consumed(b *block) { e.blocks.Consumed(b) }

// frameMost is the most payload of a frame that a connection accepts.
func (e *shard) frameMost(kind blocks.Kind) int {
	if kind == blocks.Compact {
		return compactFrame
	}
	return e.opt.Block
}

// recvMost is how many blocks may be posted or held.
func (e *shard) recvMost() int {
	if e.recvs.shared == nil {
		return e.blocks.Receivable()
	}
	return min(e.blocks.Receivable(), e.recvs.depth)
}
