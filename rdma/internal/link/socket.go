package link

import (
	"fmt"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdma/internal/ending"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
)

// PacketSocket is the part of a PacketConn that its shard knows.
type PacketSocket struct {
	Shard *Shard
	At    datagram.Port
	QP    *ibv.QP

	Mu     sync.Mutex // guards the next fields, and qp while the socket is opened or closed
	Slots  datagram.Slots
	Err    error // why it has failed
	Ending bool  // the QP enters the state ERR

	Over                ending.Latch // it is closed, or has failed
	Rested              ending.Latch // the device uses nothing any more
	ReadWake, WriteWake chan struct{}
}

// AddPacket gives c a place among the engine's, with room in the CQ, and memory.
func (e *Shard) AddPacket(c *PacketSocket) error {
	if stride := datagram.Stride(c.At.MTU); stride > e.Stride {
		return &ibv.ArgError{Arg: "Engine", Got: fmt.Sprintf("blocks of %d bytes", e.Options.Block),
			Want: fmt.Sprintf("at least %d, so that a datagram fits", stride)}
	}
	for n := range packetPlaces {
		if _, err := e.Reserve(false); err != nil {
			e.Members.Places.Add(-int32(n))
			return err
		}
	}
	e.Members.mu.Lock()
	defer e.Members.mu.Unlock()
	err := error(&ibv.LimitError{What: "sockets for datagrams", Asked: datagram.Sockets + 1, Limit: datagram.Sockets,
		Where: "the engine of " + e.Engine.Name()})
	for i := range e.packets {
		if e.packets[i].Load() != nil {
			continue
		}
		if err = e.takeSlots(c, i); err != nil {
			break
		}
		c.Shard = e
		e.packets[i].Store(c)
		e.Members.sockets++
		return nil
	}
	e.Members.Places.Add(-packetPlaces)
	return err
}

// takeSlots cuts blocks into slots. They count as promised: no other user gets them.
// Preconditions: e.Members.mu is held.
func (e *Shard) takeSlots(c *PacketSocket, index int) error {
	n := datagram.BlocksFor(e.Stride, c.At.MTU)
	spent := fmt.Errorf("%w: %w", pool.ErrNoMemory, &ibv.LimitError{What: "bytes for datagrams",
		Asked: uint64(n * e.Stride), Limit: uint64(e.Options.Memory),
		Where: "EngineOptions.Memory, which connections and buffers share"})
	list, err := e.Blocks.Claim(n)
	if err != nil {
		if err == blocks.ErrFull {
			err = spent
		}
		return err
	}
	c.Slots.Cut(index, list, c.At.MTU)
	return nil
}

// RemovePacket undoes addPacket.
func (e *Shard) RemovePacket(c *PacketSocket, list []*Block) {
	e.packets[c.Slots.Index].Store(nil)
	e.Members.mu.Lock()
	defer e.Members.mu.Unlock()
	e.Blocks.Unclaim(list)
	e.Members.sockets--
	e.Members.Places.Add(-packetPlaces)
}

// complete handles a completion.
func (c *PacketSocket) complete(wc *ibv.WC) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	sent, came := c.Slots.Complete(wc)
	if sent {
		progress.Token(c.WriteWake)
	}
	if came {
		progress.Token(c.ReadWake)
	}
	if err := wc.Err(); err != nil && !c.Ending {
		c.failLocked(err)
	}
	if c.Ending && c.Slots.AtRest() {
		c.Rested.Happen()
	}
}

// FailAs ends the socket because of the device; err is why. Datagrams that were received before stay readable.
func (c *PacketSocket) FailAs(err error) {
	c.Mu.Lock()
	c.failLocked(err)
	c.Mu.Unlock()
}

// failLocked is failAs.
// Preconditions: c.Mu is held.
func (c *PacketSocket) failLocked(err error) {
	if c.Err == nil {
		c.Err = err
		c.End()
	}
}

// End wakes everybody.
// Preconditions: c.Mu is held.
func (c *PacketSocket) End() {
	c.Over.Happen()
	progress.Token(c.ReadWake)
	progress.Token(c.WriteWake)
}

// eachPacket calls f for the sockets for datagrams of a queue pair, or with nil for all of them, with their locks.
func (e *Engine) eachPacket(qp *ibv.QP, f func(*PacketSocket)) {
	packets := &e.Shards[0].packets
	for i := range packets {
		c := packets[i].Load()
		if c == nil {
			continue
		}
		c.Mu.Lock()
		if qp == nil || c.QP == qp {
			f(c)
		}
		c.Mu.Unlock()
	}
}

// Post posts receives.
// Preconditions: c.Mu is held.
func (c *PacketSocket) Post() {
	if c.Ending || c.Err != nil {
		return
	}
	if err := c.Slots.Post(c.QP); err != nil {
		c.failLocked(err)
	}
}
