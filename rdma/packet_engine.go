package rdma

import (
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
)

// addPacket gives c a place among the engine's, with room in the CQ, and memory.
func (e *shard) addPacket(c *PacketConn) error {
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
func (e *shard) takeSlots(c *PacketConn, index int) error {
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
func (e *shard) removePacket(c *PacketConn, list []*block) {
	e.packets[c.slots.Index()].Store(nil)
	e.members.mu.Lock()
	defer e.members.mu.Unlock()
	e.blocks.Unclaim(list)
	e.members.sockets--
	e.members.used -= packetPlaces
}

// packet handles a completion of the PacketConn with this number.
func (e *shard) packet(index int, wc *ibv.WC) {
	if c := e.packets[index].Load(); c != nil {
		c.complete(wc)
	}
}

// complete handles a completion.
func (c *PacketConn) complete(wc *ibv.WC) {
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
func (c *PacketConn) failAs(err error) {
	c.mu.Lock()
	c.failLocked(err)
	c.mu.Unlock()
}

// failLocked is failAs.
// Preconditions: c.mu is held.
func (c *PacketConn) failLocked(err error) {
	if c.err == nil {
		c.err = err
		c.end()
	}
}

// end wakes everybody.
// Preconditions: c.mu is held.
func (c *PacketConn) end() {
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

// Close closes the socket. Datagrams that were accepted have left; those that were not read are dropped.
func (c *PacketConn) Close() error {
	c.closing.Lock()
	defer c.closing.Unlock()
	c.mu.Lock()
	c.closed = true
	c.opened.Done()
	c.end()
	c.mu.Unlock()
	c.read.Stop()
	c.write.Stop()
	c.cm.asking.Wait()
	c.readTurn.Take() // no goroutine uses a slot after this
	c.writeTurn.Take()
	err := c.release()
	c.readTurn.Leave()
	c.writeTurn.Leave()
	return c.fail("close", err)
}

// release frees what there is.
// Preconditions: c.closed; the caller has both turns and closing.
func (c *PacketConn) release() error {
	c.cm.halt()
	if c.qp != nil {
		c.drain()
		for _, g := range c.table.Groups() { // only Join and Leave change them, and these have ended
			_ = c.qp.DetachMcast(g.Attr.DGID, g.Attr.DLID)
		}
		if err := c.qp.Close(); err != nil {
			return err // the device may still use the slots
		}
	}
	c.mu.Lock()
	c.qp = nil
	ahs := c.table.Clear()
	c.mu.Unlock()
	closeAHs(ahs)
	if list := c.slots.Uncut(); list != nil {
		c.e.removePacket(c, list)
	}
	return c.cm.close()
}

// drain waits until what was sent has left, and then until the device uses no slot.
func (c *PacketConn) drain() {
	defer c.e.pollMeanwhile()()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	for {
		c.mu.Lock()
		left := c.slots.AllSent() || c.err != nil
		c.mu.Unlock()
		if left {
			break
		}
		select {
		case <-c.writeWake:
			continue
		case <-c.e.eng.gone:
		case <-timer.C:
		}
		break
	}
	c.mu.Lock()
	c.ending = true
	rested := c.slots.AtRest()
	c.mu.Unlock()
	if c.qp.Modify(&ibv.QPAttr{State: ibv.StateErr}, ibv.MaskState) != nil || rested {
		return
	}
	timer.Reset(drainTime)
	select {
	case <-c.rested:
	case <-c.e.eng.gone:
	case <-timer.C:
	}
}
