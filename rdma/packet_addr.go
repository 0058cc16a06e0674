package rdma

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/foreign"
)

// PacketAddr is the source of a datagram whose sender's port is not proven: a queue pair that is not of a PacketConn,
// or of one that has only sent to a group, or that was forgotten among others, or whose port has another owner.
// PacketConn.WriteTo takes it: a reply reaches that queue pair, and no other.
type PacketAddr struct {
	of   *PacketConn    // whose device attr is for
	ap   netip.AddrPort // port 0
	attr ibv.AHAttr
	qpn  uint32
}

// Network returns "udp".
func (a *PacketAddr) Network() string { return "udp" }

// AddrPort returns the address. The port is 0: the QPN takes its place, and only the PacketConn that has received the
// datagram can reply.
func (a *PacketAddr) AddrPort() netip.AddrPort { return a.ap }

// QPN returns the number of the queue pair.
func (a *PacketAddr) QPN() uint32 { return a.qpn }

// String returns the host and the queue pair.
func (a *PacketAddr) String() string {
	if a == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%v qp %#x", a.ap.Addr(), a.qpn)
}

func (a *PacketAddr) source() source {
	s := source{gid: a.attr.DGID, qpn: a.qpn}
	if !a.attr.Global {
		s.lid = a.attr.DLID
	}
	return s
}

// statedPort is the upper half of the immediate of a PacketConn's datagrams. The lower half is the port of the socket.
const statedPort = 0x5056 << 16

// stated returns the port that a datagram states, or 0.
func stated(wc *ibv.WC) uint16 {
	if wc.Flags&ibv.WCWithImm == 0 || wc.Imm&^0xffff != statedPort {
		return 0
	}
	return uint16(wc.Imm)
}

// from returns the address of the peer that has sent a datagram. ours is false if a dialed socket has another peer.
func (c *PacketConn) from(wc *ibv.WC, header []byte) (addr net.Addr, ours bool, err error) {
	a := PacketAddr{of: c, qpn: wc.SrcQPN}
	a.attr = ibv.AHAttr{Port: c.port, DLID: wc.SLID, SL: wc.SL, SrcPathBits: wc.DLIDPathBits}
	if wc.Flags&ibv.WCGRH != 0 {
		h, err := ibv.ParseGRH(header)
		if err != nil {
			return nil, false, err
		}
		a.attr.Global, a.attr.DGID, a.attr.FlowLabel, a.attr.TrafficClass = true, h.From, h.FlowLabel, h.TrafficClass
		a.attr.SGIDIndex, a.attr.HopLimit = c.sgid[h.RoCEv2], packetHops
		a.ap = netip.AddrPortFrom(c.host(h.From.Addr()), 0)
	}
	now := c.now()
	var unused []*ibv.AH
	c.mu.Lock()
	p := c.peers[a.source()]
	if p == nil {
		kept := new(PacketAddr)
		*kept = a
		p, unused = c.keep(kept)
	}
	ours = c.to == nil || c.to.peer == p
	addr = p.addr
	if n := c.nameOf(p, stated(wc)); n != nil {
		n.heard = now
		addr = n.udp
	}
	c.mu.Unlock()
	closeAHs(unused)
	return addr, ours, nil
}

// host returns an address as names have it: without a prefix for IPv4, and one of link-local scope with the zone of
// this socket, whose link it is on. rdma_cm omits the zone.
func (c *PacketConn) host(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.IsLinkLocalUnicast() && a.Zone() == "" {
		a = a.WithZone(c.local.Addr().Zone())
	}
	return a
}

// packetHops is how many routers a datagram may pass, as many as the kernel allows.
const packetHops = 64

func closeAHs(list []*ibv.AH) {
	for _, ah := range list {
		_ = ah.Close()
	}
}

// addressee returns where to send a datagram for an address. Its owner may have to be asked.
func (c *PacketConn) addressee(b bound, addr net.Addr) (*packetName, error) {
	var to netip.AddrPort
	switch a := addr.(type) {
	case *PacketAddr:
		if a != nil && a.of == c {
			c.mu.Lock()
			p, unused := c.keep(a)
			c.mu.Unlock()
			closeAHs(unused)
			return &p.self, nil
		}
		if a != nil {
			to = a.ap
		}
	case *net.UDPAddr:
		to = a.AddrPort()
	case nil:
	default:
		foreign.Call(func() { to, _ = netip.ParseAddrPort(a.String()) }, nil)
	}
	if !to.Addr().IsValid() || to.Port() == 0 && !to.Addr().IsMulticast() {
		return nil, &ibv.ArgError{Arg: "addr", Got: fmt.Sprint(addr), Want: "an IP address and a port, or an address " +
			"that this PacketConn's ReadFrom returned"}
	}
	to = netip.AddrPortFrom(c.host(to.Addr()), to.Port())
	c.mu.Lock()
	n := c.named[to]
	if g := c.groups[to.Addr()]; g != nil {
		n = &g.self
	}
	known := n != nil && !n.lost
	c.mu.Unlock()
	switch {
	case known:
		return n, nil
	case to.Addr().IsMulticast():
		return nil, &ibv.ArgError{Arg: "addr", Got: to.String(), Want: "a group that was joined: see Join"}
	}
	return c.resolve(b, to, c.limit(), true)
}

// An announcement is the private data of a request for a peer's queue pair. It states the requester's queue pair and
// port, so that the peer asks for them: it proves nothing.
const (
	announceMagic = "PVRD"
	announceLen   = 16
)

func (c *PacketConn) announcement() []byte {
	b := make([]byte, announceLen)
	copy(b, announceMagic)
	binary.LittleEndian.PutUint32(b[4:], c.qp.Num())
	binary.LittleEndian.PutUint16(b[8:], c.local.Port())
	return b
}

// unproven returns the address that a request from host announces, if its owner is to be asked before this side relies
// on it.
func (c *PacketConn) unproven(host netip.Addr, b []byte) (netip.AddrPort, bool) {
	if len(b) < announceLen || string(b[:4]) != announceMagic || !host.IsValid() {
		return netip.AddrPort{}, false
	}
	qpn, port := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint16(b[8:])
	ap := netip.AddrPortFrom(c.host(host), port)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.named[ap]
	proven := n != nil && !n.lost && n.peer.addr.qpn == qpn && c.now()-n.asked < askAlways
	return ap, port != 0 && !proven
}

// now returns the tick.
func (c *PacketConn) now() uint32 {
	if c.e == nil {
		return 0
	}
	return c.e.ticks.Load()
}
