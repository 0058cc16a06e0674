package rdma

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/admit"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// PacketConn sends and receives datagrams, like UDP: a net.PacketConn, and after DialPacket a
// net.Conn. A datagram may be lost, and arrives whole or not at all. It is one packet, so that
// MaxDatagram is the longest.
//
// It belongs to the caller and is safe for concurrent use. Data is copied once on each side. Up to
// 128 datagrams that were not read are kept; while there are that many, the adapter drops what comes. An error of its
// methods is a *net.OpError.
type PacketConn struct {
	e     *shard
	index int // in e.packets
	opt   Options
	packetPort
	packetCM
	qp *ibv.QP

	mu sync.Mutex // guards the next fields
	packetTable
	packetRing
	packetSlots
	stats  PacketStats
	err    error // why it has failed
	closed bool  // by Close
	ending bool  // the QP enters the state ERR

	over                chan struct{} // closed with closed, or when it has failed
	isOver              bool          // under mu
	rested              chan struct{} // closed when the device uses nothing any more
	read, write         deadline.Deadline
	readTurn, writeTurn turn.Turn
	readWake, writeWake chan struct{}
	closing             sync.Mutex
	opened              *leak.Record
}

// packetPort is the place of a PacketConn on the device. It does not change once the socket is open.
type packetPort struct {
	local netip.AddrPort
	addr  *net.UDPAddr // local
	port  uint8
	mtu   int
	sgid  map[bool]uint8 // index of the GID, by whether it is RoCE v2's
}

// packetCM is the connection manager's part of a PacketConn.
type packetCM struct {
	ch      *rdmacm.EventChannel
	id      *rdmacm.ID                        // bound to local; listens
	member  *rdmacm.ID                        // of groups, made by Join; with joining
	waiting map[*rdmacm.ID]chan *rdmacm.Event // under the socket's mu
	asking  sync.WaitGroup                    // goroutines that use the event channel
	joining sync.Mutex
	proofs  *admit.Gate[packetRequest]
	stop    context.CancelFunc
	events  sync.WaitGroup
}

// packetSlots are the datagrams in memory, and the work requests for them.
type packetSlots struct {
	blocks       []*block
	recvs, sends []packetSlot
	unposted     []uint32 // receives
	free         []uint32 // sends
	outstanding  int      // work requests
	recvWR       [packetRepost]ibv.RecvWR
	recvSGE      [packetRepost]ibv.SGE
	sendWR       [1]ibv.SendWR
	sendSGE      [1]ibv.SGE
}

// PacketStats are the counters of a PacketConn.
type PacketStats struct {
	Sent, Received uint64 // datagrams
	Dropped        uint64 // received, and not from the peer of DialPacket, or without a source
	Full           uint64 // how often the receive queue filled up; the adapter drops datagrams until some are read
	Peers          int    // known
}

const (
	packetRepost = 16 // most receives that are posted at a time
	grhLen       = 40
)

// packetSlot is a registered piece of a block for one datagram.
type packetSlot struct {
	mem  []byte // header and payload
	sge  ibv.SGE
	peer *packetPeer // of a send under way
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
	if c.to == nil {
		return nil
	}
	return c.to.udp
}

// MaxDatagram returns the length of the longest datagram: the MTU of the device's port. A path may
// have less, and then loses longer ones.
func (c *PacketConn) MaxDatagram() int { return c.mtu }

// Transport describes what carries the datagrams, such as "rdma mlx5_0 Direct".
func (c *PacketConn) Transport() string { return c.e.transport() }

// Stats returns the counters.
func (c *PacketConn) Stats() PacketStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Peers = len(c.peers)
	return s
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
		case c.count > 0:
			wc := c.pop()
			c.mu.Unlock()
			slot := uint32(wc.ID)
			mem := c.recvs[slot].mem
			addr, ours, err := c.from(wc, mem[:grhLen])
			ours = ours && err == nil
			n := 0
			if ours {
				n = copy(p, mem[grhLen:wc.ByteLen])
			}
			c.repost(slot, ours)
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

// repost gives a receive back to the device, soon.
func (c *PacketConn) repost(slot uint32, ours bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ours {
		c.stats.Received++
	} else {
		c.stats.Dropped++
	}
	c.unposted = append(c.unposted, slot)
	if len(c.unposted) == packetRepost || c.count == 0 {
		c.post()
	}
}

// post posts receives.
// Preconditions: c.mu is held.
func (c *PacketConn) post() {
	for len(c.unposted) > 0 && !c.ending && c.err == nil {
		n := min(len(c.unposted), packetRepost)
		list := c.unposted[len(c.unposted)-n:]
		for i, slot := range list {
			c.recvSGE[i] = c.recvs[slot].sge
			c.recvWR[i] = ibv.RecvWR{ID: c.wrID(0, slot), SGEs: c.recvSGE[i : i+1 : i+1]}
		}
		done, err := c.qp.PostRecv(c.recvWR[:n])
		c.outstanding += done
		c.unposted = append(c.unposted[:len(c.unposted)-n], list[done:]...)
		if err != nil {
			c.failLocked(err)
			return
		}
	}
}

// Write sends p to the peer of DialPacket.
func (c *PacketConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	to := c.to
	lost := to != nil && to.lost
	c.mu.Unlock()
	if to == nil {
		return 0, c.fail("write", syscall.ENOTCONN)
	}
	b := bound{Deadline: &c.write}
	if lost {
		if _, err := c.resolve(b, to.ap, c.limit(), true); err != nil {
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
	dialed := c.to != nil
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
	if len(p) <= c.mtu {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrTooLarge, &ibv.LimitError{What: "bytes of a datagram", Asked: uint64(len(p)),
		Limit: uint64(c.mtu), Where: "the MTU of " + c.e.eng.name()})
}

func (c *PacketConn) send(b bound, p []byte, name *packetName) (int, error) {
	if err := c.fits(p); err != nil {
		return 0, err
	}
	if err := c.writeTurn.Enter(b); err != nil {
		return 0, err
	}
	defer c.writeTurn.Leave()
	c.mu.Lock()
	for len(c.free) == 0 && !c.closed && c.err == nil {
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
	to := c.current(name.peer)
	if c.mustAsk(name, c.now()) {
		go c.askAgain(name)
	}
	to.busy++
	qkey := name.qkey
	slot := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	s := &c.sends[slot]
	attr := to.addr.attr
	c.mu.Unlock() // the slot is ours, and the peer is kept
	n := copy(s.mem[grhLen:], p)
	var err error
	ah := to.ah // while it is busy, only the holder of writeTurn writes it
	if ah == nil {
		ah, err = c.e.eng.pd.CreateAH(&attr)
	}
	c.mu.Lock()
	to.ah = ah
	if err == nil && c.ending {
		err = ErrClosed
	}
	if err == nil {
		c.sendSGE[0] = ibv.SGE{Addr: s.sge.Addr + grhLen, Length: uint32(n), LKey: s.sge.LKey}
		c.sendWR[0] = ibv.SendWR{ID: c.wrID(packetSend, slot), Opcode: ibv.OpSendImm, Flags: ibv.Signaled,
			Imm: statedPort | uint32(c.local.Port()), SGEs: c.sendSGE[:1], AH: ah, RemoteQPN: to.addr.qpn,
			RemoteQKey: qkey}
		_, err = c.qp.PostSend(c.sendWR[:])
	}
	if err != nil {
		to.busy--
		c.free = append(c.free, slot)
		return 0, err
	}
	s.peer = to
	c.outstanding++
	c.stats.Sent++
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
