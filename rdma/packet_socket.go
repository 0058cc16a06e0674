package rdma

import (
	"fmt"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
)

// packetSocket is the part of a PacketConn that its shard knows.
type packetSocket struct {
	e  *shard
	at datagram.Port
	qp *ibv.QP

	mu     sync.Mutex // guards the next fields, and qp while the socket is opened or closed
	slots  datagram.Slots
	err    error // why it has failed
	ending bool  // the QP enters the state ERR
	isOver bool

	over                chan struct{} // closed when it is closed, or has failed
	rested              chan struct{} // closed when the device uses nothing any more
	readWake, writeWake chan struct{}
}

func newPacketSocket() packetSocket {
	return packetSocket{over: make(chan struct{}), rested: make(chan struct{}),
		readWake: make(chan struct{}, 1), writeWake: make(chan struct{}, 1)}
}

// addPacket gives c a place among the engine's, with room in the CQ, and memory.
func (e *shard) addPacket(c *packetSocket) error {
	if stride := datagram.Stride(c.at.MTU); stride > e.stride {
		return &ibv.ArgError{Arg: "Engine", Got: fmt.Sprintf("blocks of %d bytes", e.opt.Block),
			Want: fmt.Sprintf("at least %d, so that a datagram fits", stride)}
	}
	for n := range packetPlaces {
		if _, err := e.reserve(false); err != nil {
			for range n {
				e.members.reserve(-1)
			}
			return err
		}
	}
	e.members.mu.Lock()
	defer e.members.mu.Unlock()
	err := error(&ibv.LimitError{What: "sockets for datagrams", Asked: datagram.Sockets + 1, Limit: datagram.Sockets,
		Where: "the engine of " + e.eng.name()})
	for i := range e.packets {
		if e.packets[i].Load() != nil {
			continue
		}
		if err = e.takeSlots(c, i); err != nil {
			break
		}
		c.e = e
		e.packets[i].Store(c)
		e.members.sockets++
		return nil
	}
	e.members.used -= packetPlaces
	return err
}

// takeSlots cuts blocks into slots. They count as promised: no other user gets them.
// Preconditions: e.members.mu is held.
func (e *shard) takeSlots(c *packetSocket, index int) error {
	n := datagram.BlocksFor(e.stride, c.at.MTU)
	spent := fmt.Errorf("%w: %w", ErrNoMemory, &ibv.LimitError{What: "bytes for datagrams",
		Asked: uint64(n * e.stride), Limit: uint64(e.opt.Memory),
		Where: "EngineOptions.Memory, which connections and buffers share"})
	list, err := e.blocks.Claim(n)
	if err != nil {
		if err == blocks.ErrFull {
			err = spent
		}
		return err
	}
	c.slots.Cut(index, list, c.at.MTU)
	return nil
}

// removePacket undoes addPacket.
func (e *shard) removePacket(c *packetSocket, list []*block) {
	e.packets[c.slots.Index()].Store(nil)
	e.members.mu.Lock()
	defer e.members.mu.Unlock()
	e.blocks.Unclaim(list)
	e.members.sockets--
	e.members.used -= packetPlaces
}

// packet handles a completion of the socket with this number.
func (e *shard) packet(index int, wc *ibv.WC) {
	if c := e.packets[index].Load(); c != nil {
		c.complete(wc)
	}
}

// complete handles a completion.
func (c *packetSocket) complete(wc *ibv.WC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent, came := c.slots.Complete(wc)
	if sent {
		wake(c.writeWake)
	}
	if came {
		wake(c.readWake)
	}
	if err := wc.Err(); err != nil && !c.ending {
		c.failLocked(err)
	}
	if c.ending && c.slots.AtRest() {
		close(c.rested)
	}
}

// failAs ends the socket because of the device; err is why. Datagrams that were received before stay readable.
func (c *packetSocket) failAs(err error) {
	c.mu.Lock()
	c.failLocked(err)
	c.mu.Unlock()
}

// failLocked is failAs.
// Preconditions: c.mu is held.
func (c *packetSocket) failLocked(err error) {
	if c.err == nil {
		c.err = err
		c.end()
	}
}

// end wakes everybody.
// Preconditions: c.mu is held.
func (c *packetSocket) end() {
	if !c.isOver {
		c.isOver = true
		close(c.over)
	}
	wake(c.readWake)
	wake(c.writeWake)
}

// failPackets ends the socket for datagrams of a queue pair, or with nil all of them.
func (e *Engine) failPackets(err error, qp *ibv.QP) {
	packets := &e.shards[0].packets
	for i := range packets {
		c := packets[i].Load()
		if c == nil {
			continue
		}
		c.mu.Lock()
		if qp == nil || c.qp == qp {
			c.failLocked(err)
		}
		c.mu.Unlock()
	}
}

// post posts receives.
// Preconditions: c.mu is held.
func (c *packetSocket) post() {
	if c.ending || c.err != nil {
		return
	}
	if err := c.slots.Post(c.qp); err != nil {
		c.failLocked(err)
	}
}
