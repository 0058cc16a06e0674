package rdma

import (
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// PacketConn sends and receives datagrams, like UDP: a net.PacketConn, and after DialPacket a
// net.Conn. A datagram may be lost, and arrives whole or not at all. It is one packet, so that
// MaxDatagram is the longest.
//
// It belongs to the caller and is safe for concurrent use. Data is copied once on each side. Up to
// 128 datagrams that were not read are kept, or as many as the device grants receives; while there
// are that many, the adapter drops what comes. An error of its methods is a *net.OpError.
type PacketConn struct {
	packetSocket
	opt    Options
	addr   *net.UDPAddr // at.Local
	cm     packetCM
	table  datagram.Table // guarded by mu
	closed bool           // by Close; guarded by mu

	read, write         deadline.Deadline
	readTurn, writeTurn turn.Turn
	closing             sync.Mutex
	opened              *leak.Record
}

// PacketStats are the counters of a PacketConn.
type PacketStats struct {
	Sent, Received uint64 // datagrams
	Dropped        uint64 // received, and not from the peer of DialPacket, or without a source
	Full           uint64 // how often the receive queue filled up; the adapter drops datagrams until some are read
	Peers          int    // known
}

func (c *PacketConn) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return netOp(op, c.LocalAddr(), c.RemoteAddr(), err)
}

// LocalAddr returns the address of this side, a *net.UDPAddr.
func (c *PacketConn) LocalAddr() net.Addr { return c.addr }

// RemoteAddr returns the address that DialPacket was given, a *net.UDPAddr, or nil after ListenPacket.
func (c *PacketConn) RemoteAddr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to := c.table.To(); to != nil {
		return to.UDP()
	}
	return nil
}

// MaxDatagram returns the length of the longest datagram: the MTU of the device's port. A path may
// have less, and then loses longer ones.
func (c *PacketConn) MaxDatagram() int { return c.at.MTU }

// Transport describes what carries the datagrams, such as "rdma mlx5_0 Direct".
func (c *PacketConn) Transport() string { return c.e.cq.Carrier() }

// Stats returns the counters.
func (c *PacketConn) Stats() PacketStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.slots.Counts()
	return PacketStats{Sent: n.Sent, Received: n.Received, Dropped: n.Dropped, Full: n.Full, Peers: c.table.Len()}
}

// ReadFrom waits for a datagram and copies it to p. Bytes that do not fit are lost. addr is a *net.UDPAddr, which must
// not be changed. If the sender's port is not proven, it is a *PacketAddr. WriteTo takes either.
func (c *PacketConn) ReadFrom(p []byte) (n int, addr net.Addr, err error) {
	n, from, err := c.receive(p)
	if err != nil {
		return 0, nil, c.fail("read", err)
	}
	return n, from, nil
}

// Read is ReadFrom without the address.
func (c *PacketConn) Read(p []byte) (int, error) {
	n, _, err := c.receive(p)
	return n, c.fail("read", err)
}

func (c *PacketConn) receive(p []byte) (int, net.Addr, error) {
	b := bound{Deadline: &c.read}
	if err := c.readTurn.Enter(b); err != nil {
		return 0, nil, err
	}
	defer c.readTurn.Leave()
	for {
		c.mu.Lock()
		switch {
		case c.closed:
			c.mu.Unlock()
			return 0, nil, ErrClosed
		case c.slots.Unread() > 0:
			wc, mem := c.slots.Take()
			c.mu.Unlock()
			addr, ours, err := c.from(wc, mem[:datagram.GRHLen])
			ours = ours && err == nil
			n := 0
			if ours {
				n = copy(p, mem[datagram.GRHLen:wc.ByteLen])
			}
			c.giveBack(wc, ours)
			if ours {
				return n, addr, nil
			}
			continue
		}
		err := c.err
		c.mu.Unlock()
		if err != nil {
			return 0, nil, err
		}
		if err := c.e.wait(b, c.readWake); err != nil {
			return 0, nil, err
		}
	}
}

// giveBack gives a receive back to the device, soon.
func (c *PacketConn) giveBack(wc *ibv.WC, ours bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots.GiveBack(wc, ours) {
		c.post()
	}
}

// Write sends p to the peer of DialPacket.
func (c *PacketConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	to := c.table.To()
	lost := to != nil && to.Lost()
	c.mu.Unlock()
	if to == nil {
		return 0, c.fail("write", syscall.ENOTCONN)
	}
	b := bound{Deadline: &c.write}
	if lost {
		if _, err := c.resolve(b, to.AP(), c.limit(), true); err != nil {
			return 0, c.fail("write", err)
		}
	}
	n, err := c.send(b, p, to)
	return n, c.fail("write", err)
}

// WriteTo sends p to an address: one that ReadFrom returned, or the address of a peer as *net.UDPAddr. A peer that is
// not known yet is asked for its queue pair first. If nothing has come from a peer for 10 seconds, the next datagram to
// it lets this side ask again in the background. So a peer that has restarted at the same address is reached after some
// seconds; what was sent to it before is lost, as with UDP. If no program has the port any more, the error matches
// syscall.ECONNREFUSED. A group that was joined is an address as well, with any port.
func (c *PacketConn) WriteTo(p []byte, addr net.Addr) (int, error) {
	n, err := c.writeTo(p, addr)
	if err != nil {
		return 0, netOp("write", c.LocalAddr(), addr, err)
	}
	return n, nil
}

func (c *PacketConn) writeTo(p []byte, addr net.Addr) (int, error) {
	c.mu.Lock()
	dialed := c.table.To() != nil
	c.mu.Unlock()
	if dialed {
		return 0, net.ErrWriteToConnected
	}
	b := bound{Deadline: &c.write}
	if err := c.fits(p); err != nil {
		return 0, err
	}
	if err := b.Expired(); err != nil {
		return 0, err
	}
	to, err := c.addressee(b, addr)
	if err != nil {
		return 0, err
	}
	return c.send(b, p, to)
}

// fits reports a datagram that is too long.
func (c *PacketConn) fits(p []byte) error {
	if len(p) <= c.at.MTU {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrTooLarge, &ibv.LimitError{What: "bytes of a datagram", Asked: uint64(len(p)),
		Limit: uint64(c.at.MTU), Where: "the MTU of " + c.e.eng.name()})
}

func (c *PacketConn) send(b bound, p []byte, name *datagram.Name) (int, error) {
	if err := c.fits(p); err != nil {
		return 0, err
	}
	if err := c.writeTurn.Enter(b); err != nil {
		return 0, err
	}
	defer c.writeTurn.Leave()
	c.mu.Lock()
	for !c.slots.MaySend() && !c.closed && c.err == nil {
		c.mu.Unlock()
		if err := c.e.wait(b, c.writeWake); err != nil {
			return 0, err
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	if c.closed {
		return 0, ErrClosed
	}
	if c.err != nil {
		return 0, c.err
	}
	to := c.table.Current(name)
	if c.table.MustAsk(name, c.now()) {
		go c.askAgain(name)
	}
	to.Hold()
	qkey := name.QKey()
	slot, payload := c.slots.TakeSend()
	c.mu.Unlock() // the slot is ours, and the peer is kept
	n := copy(payload, p)
	ah, err := to.AH(), error(nil) // of one that is held only the holder of writeTurn sets it
	if ah == nil {
		attr := to.Address().Attr
		ah, err = c.e.eng.pd.CreateAH(&attr)
	}
	c.mu.Lock()
	to.SetAH(ah)
	if err == nil && c.ending {
		err = ErrClosed
	}
	if err == nil {
		err = c.slots.Send(c.qp, slot, n, datagram.State(c.at.Local.Port()), to, qkey)
	}
	if err != nil {
		to.Drop()
		c.slots.Unsent(slot)
		return 0, err
	}
	return n, nil
}

// SetDeadline sets the deadlines of reading and writing; the zero time means none.
func (c *PacketConn) SetDeadline(t time.Time) error {
	if c.why() == ErrClosed {
		return netOp("set", nil, c.LocalAddr(), ErrClosed)
	}
	c.read.Set(t)
	c.write.Set(t)
	return nil
}

// SetReadDeadline sets the deadline of ReadFrom and Read, also of one that waits.
func (c *PacketConn) SetReadDeadline(t time.Time) error {
	if c.why() == ErrClosed {
		return netOp("set", nil, c.LocalAddr(), ErrClosed)
	}
	c.read.Set(t)
	return nil
}

// SetWriteDeadline sets the deadline of WriteTo and Write, also of one that waits.
func (c *PacketConn) SetWriteDeadline(t time.Time) error {
	if c.why() == ErrClosed {
		return netOp("set", nil, c.LocalAddr(), ErrClosed)
	}
	c.write.Set(t)
	return nil
}

var _ net.PacketConn = (*PacketConn)(nil)
var _ net.Conn = (*PacketConn)(nil)
