package packet

import (
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// Close closes the socket.
func (c *Conn) Close() error {
	c.closing.Lock()
	defer c.closing.Unlock()
	c.Mu.Lock()
	c.closed = true
	c.Opened.Done()
	c.End()
	c.Mu.Unlock()
	c.readBy.Stop()
	c.writeBy.Stop()
	c.cm.asking.Wait()
	c.readTurn.Take() // no goroutine uses a slot after this
	c.writeTurn.Take()
	err := c.release()
	c.readTurn.Leave()
	c.writeTurn.Leave()
	return err
}

// release frees what there is.
// Preconditions: c.Closed; the caller has both turns and closing.
func (c *Conn) release() error {
	c.cm.halt()
	if c.QP != nil {
		c.drain()
		for _, g := range c.Table.Groups() { // only Join and Leave change them, and these have ended
			_ = c.QP.DetachMcast(g.Attr.DGID, g.Attr.DLID)
		}
		if err := c.QP.Close(); err != nil {
			return err // the device may still use the slots
		}
	}
	c.Mu.Lock()
	c.QP = nil
	ahs := c.Table.Clear()
	c.Mu.Unlock()
	CloseAHs(ahs)
	if list := c.Slots.Uncut(); list != nil {
		c.Shard.RemovePacket(&c.PacketSocket, list)
	}
	return c.cm.close()
}

// drain waits until what was sent has left, and then until the device uses no slot.
func (c *Conn) drain() {
	for end := time.Now().Add(link.DrainTime); ; {
		c.Mu.Lock()
		left := c.Slots.AllSent() || c.Err != nil
		c.Mu.Unlock()
		if left || !c.Shard.Await(c.WriteWake, time.Until(end)) {
			break
		}
	}
	c.Mu.Lock()
	c.Ending = true
	rested := c.Slots.AtRest()
	c.Mu.Unlock()
	if c.QP.Modify(&ibv.QPAttr{State: ibv.StateErr}, ibv.MaskState) == nil && !rested {
		c.Shard.Await(c.Rested.Done(), link.DrainTime)
	}
}
