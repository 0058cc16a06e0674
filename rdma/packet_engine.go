package rdma

import (
	"errors"
	"fmt"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// IDs of a PacketConn's work requests: packetID, its index, packetSend, and the slot.
const (
	packetID      = 1 << 62
	packetIndexAt = 40
	packetSend    = 1 << 32
)

func (c *PacketConn) wrID(kind uint64, slot uint32) uint64 {
	return packetID | uint64(c.index)<<packetIndexAt | kind | uint64(slot)
}

// addPacket gives c a place among the engine's, with room in the CQ, and memory.
func (e *shard) addPacket(c *PacketConn) error {
	if stride := packetStride(c.mtu); stride > e.stride {
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
	err := error(&ibv.LimitError{What: "sockets for datagrams", Asked: maxPackets + 1, Limit: maxPackets,
		Where: "the engine of " + e.eng.name()})
	for i := range e.packets {
		if e.packets[i].Load() != nil {
			continue
		}
		if err = e.takeSlots(c); err != nil {
			break
		}
		c.e, c.index = e, i
		e.packets[i].Store(c)
		e.members.sockets++
		return nil
	}
	e.members.used -= packetPlaces
	return err
}

// packetStride is the space of a datagram: its header ends where the payload begins, at a line of the cache.
func packetStride(mtu int) int { return headroom + mtu }

// takeSlots cuts blocks into slots. They count as promised: no other user gets them.
// Preconditions: e.members.mu is held.
func (e *shard) takeSlots(c *PacketConn) error {
	const total = packetRecvs + packetSends
	stride := packetStride(c.mtu)
	perBlock := e.stride / stride
	n := (total + perBlock - 1) / perBlock
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
	c.blocks = list
	slots := make([]packetSlot, 0, n*perBlock)
	for _, b := range list {
		for at := 0; at+stride <= len(b.Mem); at += stride {
			begin, end := at+headroom-grhLen, at+stride
			slots = append(slots, packetSlot{mem: b.Mem[begin:end:end], sge: ibv.SGE{
				Addr: b.Addr + uint64(begin), Length: uint32(end - begin), LKey: b.LKey}})
		}
	}
	c.recvs, c.sends = slots[:packetRecvs:packetRecvs], slots[packetRecvs:total]
	return nil
}

// removePacket undoes addPacket.
func (e *shard) removePacket(c *PacketConn) {
	e.packets[c.index].Store(nil)
	e.members.mu.Lock()
	defer e.members.mu.Unlock()
	e.blocks.Unclaim(c.blocks)
	c.blocks = nil
	e.members.sockets--
	e.members.used -= packetPlaces
}

// packet handles a completion of a PacketConn.
func (e *shard) packet(wc *ibv.WC) {
	if c := e.packets[wc.ID>>packetIndexAt%maxPackets].Load(); c != nil {
		c.complete(wc)
	}
}

// complete handles a completion.
func (c *PacketConn) complete(wc *ibv.WC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outstanding--
	slot := uint32(wc.ID)
	switch {
	case wc.ID&packetSend != 0:
		s := &c.sends[slot]
		s.peer.busy--
		s.peer = nil
		c.free = append(c.free, slot)
		wake(c.writeWake)
	case wc.Status == ibv.WCSuccess && wc.ByteLen >= grhLen:
		if c.push(wc) {
			c.stats.Full++
		}
		wake(c.readWake)
	default:
		c.unposted = append(c.unposted, slot)
	}
	if err := wc.Err(); err != nil && !c.ending {
		c.failLocked(err)
	}
	if c.ending && c.outstanding == 0 {
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
	c.asking.Wait()
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
	c.stop()
	c.events.Wait()
	for _, r := range c.proofs.Close() {
		_ = r.id.Close()
	}
	c.proofs.Wait()
	if c.qp != nil {
		c.drain()
		for _, p := range c.groups { // only Join and Leave change them, and these have ended
			_ = c.qp.DetachMcast(p.addr.attr.DGID, p.addr.attr.DLID)
		}
		if err := c.qp.Close(); err != nil {
			return err // the device may still use the slots
		}
	}
	c.mu.Lock()
	c.qp = nil
	ahs := c.packetTable.clear()
	c.mu.Unlock()
	closeAHs(ahs)
	var errs []error
	if c.e != nil && c.blocks != nil {
		c.e.removePacket(c)
	}
	for _, id := range []*rdmacm.ID{c.member, c.id} {
		if id != nil {
			errs = append(errs, id.Close())
		}
	}
	return errors.Join(append(errs, c.ch.Close())...)
}

// drain waits until what was sent has left, and then until the device uses no slot.
func (c *PacketConn) drain() {
	defer c.e.pollMeanwhile()()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	for {
		c.mu.Lock()
		left := len(c.free) == packetSends || c.err != nil
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
	rested := c.outstanding == 0
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
