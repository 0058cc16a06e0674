package rdma

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdma/internal/packet"
)

// PacketConn sends and receives datagrams, like UDP: a net.PacketConn, and after DialPacket a
// net.Conn. A datagram may be lost, and arrives whole or not at all. It is one packet, so that
// MaxDatagram is the longest.
//
// It belongs to the caller and is safe for concurrent use. Data is copied once on each side. Up to
// 128 datagrams that were not read are kept, or as many as the device grants receives; while there
// are that many, the adapter drops what comes. An error of its methods is a *net.OpError.
type PacketConn struct{ c *packet.Conn }

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
	return netOp(op, c.LocalAddr(), c.RemoteAddr(), public(err))
}

// LocalAddr returns the address of this side, a *net.UDPAddr.
func (c *PacketConn) LocalAddr() net.Addr { return c.c.Addr }

// RemoteAddr returns the address that DialPacket was given, a *net.UDPAddr, or nil after ListenPacket.
func (c *PacketConn) RemoteAddr() net.Addr {
	if to := c.c.Peer(); to != nil {
		return to.UDP
	}
	return nil
}

// MaxDatagram returns the length of the longest datagram: the MTU of the device's port. A path may
// have less, and then loses longer ones.
func (c *PacketConn) MaxDatagram() int { return c.c.At.MTU }

// Transport describes what carries the datagrams, such as "rdma mlx5_0 Direct".
func (c *PacketConn) Transport() string { return c.c.Shard.CQ.Carrier() }

// Stats returns the counters.
func (c *PacketConn) Stats() PacketStats {
	n, peers := c.c.Stats()
	return PacketStats{Sent: n.Sent, Received: n.Received, Dropped: n.Dropped, Full: n.Full, Peers: peers}
}

// ReadFrom waits for a datagram and copies it to p. Bytes that do not fit are lost. addr is a *net.UDPAddr, which must
// not be changed. If the sender's port is not proven, it is a *PacketAddr. WriteTo takes either.
func (c *PacketConn) ReadFrom(p []byte) (n int, addr net.Addr, err error) {
	n, from, err := c.c.Receive(p)
	if err != nil {
		return 0, nil, c.fail("read", err)
	}
	return n, from, nil
}

// Read is ReadFrom without the address.
func (c *PacketConn) Read(p []byte) (int, error) {
	n, _, err := c.c.Receive(p)
	return n, c.fail("read", err)
}

// Write sends p to the peer of DialPacket.
func (c *PacketConn) Write(p []byte) (int, error) {
	n, err := c.c.Write(p)
	return n, c.fail("write", err)
}

// WriteTo sends p to an address: one that ReadFrom returned, or the address of a peer as *net.UDPAddr. A peer that is
// not known yet is asked for its queue pair first. If nothing has come from a peer for 10 seconds, the next datagram to
// it lets this side ask again in the background. So a peer that has restarted at the same address is reached after some
// seconds; what was sent to it before is lost, as with UDP. If no program has the port any more, the error matches
// syscall.ECONNREFUSED. A group that was joined is an address as well, with any port.
func (c *PacketConn) WriteTo(p []byte, addr net.Addr) (int, error) {
	var from *packet.Source
	if a, is := addr.(*PacketAddr); is && a != nil {
		from = &a.s
	}
	n, err := c.c.WriteTo(p, addr, from)
	if err != nil {
		return 0, netOp("write", c.LocalAddr(), addr, public(err))
	}
	return n, nil
}

// SetDeadline sets the deadlines of reading and writing; the zero time means none.
func (c *PacketConn) SetDeadline(t time.Time) error { return c.set(t, true, true) }

// SetReadDeadline sets the deadline of ReadFrom and Read, also of one that waits.
func (c *PacketConn) SetReadDeadline(t time.Time) error { return c.set(t, true, false) }

// SetWriteDeadline sets the deadline of WriteTo and Write, also of one that waits.
func (c *PacketConn) SetWriteDeadline(t time.Time) error { return c.set(t, false, true) }

func (c *PacketConn) set(t time.Time, read, write bool) error {
	return netOp("set", nil, c.LocalAddr(), c.c.SetDeadlines(t, read, write))
}

// Join joins a multicast group, on the device of the socket: datagrams of its members are received, and WriteTo sends
// to it. ctx bounds the waiting.
func (c *PacketConn) Join(ctx context.Context, group netip.Addr) error {
	err := c.c.Join(ctx, group)
	if err != nil {
		err = c.fail("join", &ibv.OpError{Op: "join", Object: group.String(), Err: err})
	}
	return err
}

// Leave leaves a group. Close leaves all.
func (c *PacketConn) Leave(group netip.Addr) error { return c.fail("leave", c.c.Leave(group)) }

// Close closes the socket. Datagrams that were accepted have left; those that were not read are dropped.
func (c *PacketConn) Close() error { return c.fail("close", c.c.Close()) }

// PacketAddr is the source of a datagram whose sender's port is not proven: a queue pair that is not of a PacketConn,
// or of one that has only sent to a group, or that was forgotten among others, or whose port has another owner.
// PacketConn.WriteTo takes it: a reply reaches that queue pair, and no other.
type PacketAddr struct{ s packet.Source }

// newPacketAddr returns the address of a queue pair that has sent a datagram to c.
func newPacketAddr(c *packet.Conn, a datagram.Address) net.Addr {
	return &PacketAddr{packet.Source{Of: c, At: a}}
}

// Network returns "udp".
func (a *PacketAddr) Network() string { return "udp" }

// AddrPort returns the address. The port is 0: the QPN takes its place, and only the PacketConn that has received the
// datagram can reply.
func (a *PacketAddr) AddrPort() netip.AddrPort { return a.s.At.AP }

// QPN returns the number of the queue pair.
func (a *PacketAddr) QPN() uint32 { return a.s.At.QPN }

// String returns the host and the queue pair.
func (a *PacketAddr) String() string {
	if a == nil {
		return "<nil>"
	}
	return a.s.At.String()
}

var _ net.PacketConn = (*PacketConn)(nil)
var _ net.Conn = (*PacketConn)(nil)
