package link

import (
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

const (
	StartWindow = wire.MinLimit // data frames that a peer may be ahead of the reader, at first
	StageMost   = 4             // frames that a stream keeps while it may not send

	// Work requests that are posted with one doorbell.
	postMost = 4  // before the program has used a Batch
	opPosts  = 24 // of connections with leases
)

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

// most is how much of a thing there may be in a shard.
type most struct {
	Window  uint32 // data frames that a peer may send ahead of the application
	stage   int    // frames that a stream keeps while it may not send
	signal  uint32 // every so many work requests one is signaled
	Control int    // receives in addition to those that are granted: for frames that take no credit
}

var MostSmall = most{Window: wire.MaxWindow, stage: StageMost, signal: sendq.Depth / 4, Control: ControlBlocks}

const (
	LargeBlock = 256 << 10
	LargeSlab  = 8 << 20
	LargeEach  = 8        // blocks that are registered for a stream before it begins: a quarter is for sending
	LargeShare = 2        // what part of the memory they may take, as a divisor
	LargeLeast = 64 << 20 // memory of an engine that has them
)

// A stream keeps at most as many blocks as there are for sending, so those that wait for their peers leave some for the
// others. Few blocks are in turn, for the sake of the caches.
var MostLarge = most{Window: 32, stage: LargeEach / 4, signal: 2, Control: 8}

// DefaultBlock is the Block of most engines that leave it open.
const DefaultBlock = 32 << 10

// slabs is how many slabs have blocks to post n of them.
func slabs(block, n int) int {
	k := 1
	for perSlab := max(SlabSize/(block+Headroom), 1); blocks.ForReceives(k*perSlab) < n; k++ {
	}
	return k
}

// LeastMemory is the least Memory of an engine.
func LeastMemory(block, pollers int) int64 {
	return int64(pollers) * int64(slabs(block, 1+StartWindow)) * SlabSize
}
