package rdma

import (
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

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
		c.e.removePacket(&c.packetSocket, list)
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
