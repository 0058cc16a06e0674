package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// PacketConn sends and receives datagrams, like UDP: a net.PacketConn, and after DialPacket a
// net.Conn. A datagram may be lost, and arrives whole or not at all. It is one packet, so that
// MaxDatagram is the longest.
//
// It belongs to the caller and is safe for concurrent use. Data is copied once on each side. Up to
// 128 datagrams that were not read are kept; while there are that many, the adapter drops what comes.
type PacketConn struct {
	e     *shard
	index int // in e.packets
	opt   Options

	ch     *rdmacm.EventChannel
	id     *rdmacm.ID // bound to local; listens
	member *rdmacm.ID // of groups, made by Join; with joining
	local  netip.AddrPort
	port   uint8
	mtu    int
	qkey   uint32
	sgid   map[bool]uint8 // index of the GID, by whether it is RoCE v2's

	qp           *ibv.QP
	blocks       []*block
	recvs, sends []packetSlot

	mu          sync.Mutex
	in          [packetRecvs]ibv.WC // received and not read: a ring
	head, count int
	unposted    []uint32 // receives
	free        []uint32 // sends
	outstanding int      // work requests
	peers       map[source]*packetPeer
	named       map[netip.AddrPort]*packetPeer
	groups      map[netip.Addr]*packetPeer
	waiting     map[*rdmacm.ID]chan *rdmacm.Event
	to          *packetPeer // of DialPacket
	stats       PacketStats
	err         error // why it has failed
	closed      bool  // by Close
	ending      bool  // the QP enters the state ERR
	recvWR      [packetRepost]ibv.RecvWR
	recvSGE     [packetRepost]ibv.SGE
	sendWR      [1]ibv.SendWR
	sendSGE     [1]ibv.SGE

	over                chan struct{} // closed with closed, or when it has failed
	isOver              bool
	rested              chan struct{} // closed when the device uses nothing any more
	read, write         deadline.Deadline
	readTurn, writeTurn chan struct{}
	readWake, writeWake chan struct{}
	closing, joining    sync.Mutex
	asking              sync.WaitGroup // goroutines that use the event channel
	stop                context.CancelFunc
	events              sync.WaitGroup
}

// PacketStats are the counters of a PacketConn.
type PacketStats struct {
	Sent, Received uint64 // datagrams
	Dropped        uint64 // received, and not from the peer of DialPacket, or without a source
	Full           uint64 // how often the receive queue filled up; the adapter drops datagrams until some are read
	Peers          int    // known
}

const (
	packetRecvs  = 128
	packetSends  = 32
	packetRepost = 16                                        // most receives that are posted at a time
	packetPlaces = (packetRecvs + packetSends) / sendq.Depth // of connections, that its completions need
	maxPackets   = 256
	grhLen       = 40
)

// packetSlot is a registered piece of a block for one datagram.
type packetSlot struct {
	mem  []byte // header and payload
	sge  ibv.SGE
	peer *packetPeer // of a send under way
}

// ListenPacket opens a socket for datagrams at host:port. The host must be an address of a device;
// port 0 is any free port. opt may be nil; of it Engine, LocalAddr, Timeout, TOS and ReuseAddr are
// used. ctx bounds the lookup of the host only: Close closes the socket.
func ListenPacket(ctx context.Context, addr string, opt *Options) (*PacketConn, error) {
	fail := func(err error) (*PacketConn, error) {
		return nil, netOp("listen", nil, addrOf("udp", addr), &ibv.OpError{Op: "listen", Object: addr, Err: err})
	}
	c, err := newPacketConn(opt)
	if err != nil {
		return fail(err)
	}
	at, err := packetLookup(ctx, addr)
	if err == nil {
		err = c.open(at)
	}
	if err != nil {
		return fail(errors.Join(err, c.Close()))
	}
	return c, nil
}

// DialPacket opens a socket for datagrams to and from host:port, where ListenPacket listens. ctx bounds the call only:
// Close closes the socket.
func DialPacket(ctx context.Context, addr string, opt *Options) (*PacketConn, error) {
	fail := func(err error) (*PacketConn, error) {
		return nil, netOp("dial", nil, addrOf("udp", addr), &ibv.OpError{Op: "dial", Object: addr, Err: err})
	}
	c, err := newPacketConn(opt)
	if err != nil {
		return fail(err)
	}
	if err := c.dial(ctx, addr); err != nil {
		return fail(errors.Join(err, c.Close()))
	}
	return c, nil
}

func (c *PacketConn) dial(ctx context.Context, addr string) error {
	b := bound{Ctx: ctx}
	to, err := packetLookup(ctx, addr)
	if err != nil {
		return err
	}
	from := c.opt.LocalAddr
	if !from.Addr().IsValid() {
		if from, err = c.localFor(b, to); err != nil {
			return err
		}
	}
	if err := c.open(from); err != nil {
		return err
	}
	p, err := c.resolve(b, to)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.to = p
	c.mu.Unlock()
	return nil
}

// packetLookup returns the first address of host:port.
func packetLookup(ctx context.Context, addr string) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if host == "" {
		return netip.AddrPort{}, &ibv.ArgError{Arg: "host", Got: `""`, Want: oneDevice}
	}
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if a := list[0].Unmap(); !a.IsUnspecified() {
		return netip.AddrPortFrom(a, uint16(port)), nil
	}
	return netip.AddrPort{}, &ibv.ArgError{Arg: "host", Got: host, Want: oneDevice}
}

const oneDevice = "an address: a queue pair is on one device"

func (c *PacketConn) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return netOp(op, c.LocalAddr(), c.RemoteAddr(), err)
}

// LocalAddr returns the address of this side, a *net.UDPAddr.
func (c *PacketConn) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(c.local) }

// RemoteAddr returns the address that DialPacket was given, nil after ListenPacket.
func (c *PacketConn) RemoteAddr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.to == nil {
		return nil
	}
	return c.to.addr
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

// ReadFrom waits for a datagram and copies it to p. Bytes that do not fit are lost. addr is a *PacketAddr.
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

func (c *PacketConn) receive(p []byte) (int, *PacketAddr, error) {
	b := bound{Deadline: &c.read}
	if err := b.Enter(c.readTurn); err != nil {
		return 0, nil, err
	}
	defer leave(c.readTurn)
	for {
		c.mu.Lock()
		switch {
		case c.closed:
			c.mu.Unlock()
			return 0, nil, ErrClosed
		case c.count > 0:
			wc := &c.in[c.head]
			c.head = (c.head + 1) % packetRecvs
			c.count-- // the place is not used before the slot is posted
			to := c.to
			c.mu.Unlock()
			slot := uint32(wc.ID)
			mem := c.recvs[slot].mem
			from, err := c.from(wc, mem[:grhLen])
			ours := err == nil && (to == nil || from.source() == to.addr.source())
			n := 0
			if ours {
				n = copy(p, mem[grhLen:wc.ByteLen])
			}
			c.repost(slot, ours)
			if ours {
				return n, from, nil
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
	c.mu.Unlock()
	if to == nil {
		return 0, c.fail("write", syscall.ENOTCONN)
	}
	n, err := c.send(bound{Deadline: &c.write}, p, to)
	return n, c.fail("write", err)
}

// WriteTo sends p to an address: one that ReadFrom returned, or the address of a peer as
// *net.UDPAddr. A peer that is not known yet is asked for its queue pair first. A group that was
// joined is an address as well, with any port.
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
		Limit: uint64(c.mtu), Where: "the MTU of " + c.e.eng.dev.Name()})
}

func (c *PacketConn) send(b bound, p []byte, to *packetPeer) (int, error) {
	if err := c.fits(p); err != nil {
		return 0, err
	}
	if err := b.Enter(c.writeTurn); err != nil {
		return 0, err
	}
	defer leave(c.writeTurn)
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
	if to.gone {
		if again := c.peers[to.addr.source()]; again != nil {
			to = again
		} else {
			to.gone = false
			c.peers[to.addr.source()] = to
		}
	}
	to.busy++
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
		c.sendWR[0] = ibv.SendWR{ID: c.wrID(packetSend, slot), Opcode: ibv.OpSend, Flags: ibv.Signaled,
			SGEs: c.sendSGE[:1], AH: ah, RemoteQPN: to.addr.qpn, RemoteQKey: to.addr.qkey}
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
