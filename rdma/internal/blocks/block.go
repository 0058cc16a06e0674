package blocks

import (
	"sync/atomic"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

const (
	// Headroom is how many bytes of a block are in front of its payload, so that the payload is aligned. The header of
	// the frame is the end of it.
	Headroom = 64
	header   = wire.HeaderLen
)

// Block is registered memory for one frame: headroom, then the payload. It belongs to the set's free list, to a
// receive that is posted, or to the caller that took or received it.
type Block struct {
	Mem  []byte
	Addr uint64 // of Mem, for the device
	LKey uint32

	// Holders are those of a received frame that several messages share. Of a block that was cut into pieces the set
	// counts the free ones here.
	Holders atomic.Int32

	index  uint32
	parent *Block        // of a piece
	small  bool          // see Equip
	owner  *Sender       // of a small block; nil: none any more
	ahead  bool          // TakeAhead returned it, and neither Staged nor Give was called since
	from   *Receiver     // where it was posted last; under Set.mu
	posted atomic.Uint64 // the ID of its receive until that completes, else 0
}

// Header returns the memory of the frame's header.
func (b *Block) Header() []byte { return b.Mem[Headroom-header : Headroom] }

// HeaderAddr is the device's address of Header.
func (b *Block) HeaderAddr() uint64 { return b.Addr + Headroom - header }

// FrameLen is the length of Header and Payload.
func (b *Block) FrameLen() uint32 { return uint32(len(b.Mem) - Headroom + header) }

// Payload returns the memory after the header.
func (b *Block) Payload() []byte { return b.Mem[Headroom:] }

// Staged is called when a frame in the block was staged. It reports whether TakeAhead returned the block: then the
// caller counts it from now on, and calls Set.Caught.
func (b *Block) Staged() (ahead bool) {
	ahead, b.ahead = b.ahead, false
	return ahead
}

// ID returns the ID of the block's receive, which is posted or about to be.
func (b *Block) ID() uint64 { return b.posted.Load() }

// IsReceive reports whether the ID of a work request is one of a receive. Set.Arrived has its block.
func IsReceive(id uint64) bool { return id&recvID != 0 }

// An ID has the index of a block, and the number of the posting above it. So the completion of an earlier posting,
// which a device may report after the receive was given back with its queue, is not mistaken for a later one.
const (
	recvID  = 1 << 63
	seqAt   = 32
	seqMask = 1<<31 - 1
)

func receiveID(seq uint32, index uint32) uint64 {
	return recvID | uint64(seq&seqMask)<<seqAt | uint64(index)
}

// after returns how far posting a is after posting b, both without their highest bit.
func after(a, b uint32) int { return int(int32((a-b)<<1) >> 1) }
