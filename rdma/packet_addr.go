package rdma

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
)

// PacketAddr is the source of a datagram whose sender's port is not known: a queue pair that is not of a PacketConn, or
// of one that has only sent to a group, or that was forgotten among others. PacketConn.WriteTo takes it.
type PacketAddr struct {
	of        *PacketConn    // whose device attr is for
	ap        netip.AddrPort // port 0 if it is not known
	attr      ibv.AHAttr
	qpn, qkey uint32
}

// Network returns "udp".
func (a *PacketAddr) Network() string { return "udp" }

// AddrPort returns the address. The port is 0: the QPN takes its place, and only the PacketConn that has received the
// datagram can reply.
func (a *PacketAddr) AddrPort() netip.AddrPort { return a.ap }

// QPN returns the number of the queue pair.
func (a *PacketAddr) QPN() uint32 { return a.qpn }

// String returns host:port, or the host and the queue pair if the port is not known.
func (a *PacketAddr) String() string {
	if a == nil {
		return "<nil>"
	}
	if a.ap.Port() == 0 {
		return fmt.Sprintf("%v qp %#x", a.ap.Addr(), a.qpn)
	}
	return a.ap.String()
}

func (a *PacketAddr) source() source {
	s := source{gid: a.attr.DGID, qpn: a.qpn}
	if !a.attr.Global {
		s.lid = a.attr.DLID
	}
	return s
}

// from returns the peer that has sent a datagram, and its address.
func (c *PacketConn) from(wc *ibv.WC, header []byte) (*packetPeer, net.Addr, error) {
	a := PacketAddr{of: c, qpn: wc.SrcQPN, qkey: c.qkey}
	a.attr = ibv.AHAttr{Port: c.port, DLID: wc.SLID, SL: wc.SL, SrcPathBits: wc.DLIDPathBits}
	if wc.Flags&ibv.WCGRH != 0 {
		h, err := ibv.ParseGRH(header)
		if err != nil {
			return nil, nil, err
		}
		a.attr.Global, a.attr.DGID, a.attr.FlowLabel, a.attr.TrafficClass = true, h.From, h.FlowLabel, h.TrafficClass
		a.attr.SGIDIndex, a.attr.HopLimit = c.sgid[h.RoCEv2], packetHops
		a.ap = netip.AddrPortFrom(h.From.Addr(), 0)
	}
	now := c.now()
	c.mu.Lock()
	if p := c.peers[a.source()]; p != nil {
		p.heard = now
		addr := p.from()
		c.mu.Unlock()
		return p, addr, nil
	}
	kept := new(PacketAddr)
	*kept = a
	p, unused := c.keep(kept, now)
	c.mu.Unlock()
	closeAHs(unused)
	return p, kept, nil
}

// packetHops is how many routers a datagram may pass, as many as the kernel allows.
const packetHops = 64

func closeAHs(list []*ibv.AH) {
	for _, ah := range list {
		_ = ah.Close()
	}
}

// addressee returns the peer of an address, which may have to be asked for.
func (c *PacketConn) addressee(b bound, addr net.Addr) (*packetPeer, error) {
	var to netip.AddrPort
	switch a := addr.(type) {
	case *PacketAddr:
		if a != nil && a.of == c {
			var unused []*ibv.AH
			c.mu.Lock()
			p := c.peers[a.source()]
			if p == nil {
				p, unused = c.keep(a, c.now())
			}
			c.mu.Unlock()
			closeAHs(unused)
			return p, nil
		}
		if a != nil {
			to = a.ap
		}
	case *net.UDPAddr:
		to = a.AddrPort()
	case nil:
	default:
		to, _ = netip.ParseAddrPort(a.String())
	}
	if !to.Addr().IsValid() || to.Port() == 0 && !to.Addr().IsMulticast() {
		return nil, &ibv.ArgError{Arg: "addr", Got: fmt.Sprint(addr), Want: "an IP address and a port, or an address " +
			"that this PacketConn's ReadFrom returned"}
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	c.mu.Lock()
	p := c.named[to]
	if g := c.groups[to.Addr()]; g != nil {
		p = g
	}
	c.mu.Unlock()
	switch {
	case p != nil:
		return p, nil
	case to.Addr().IsMulticast():
		return nil, &ibv.ArgError{Arg: "addr", Got: to.String(), Want: "a group that was joined: see Join"}
	}
	return c.resolve(b, to, c.limit())
}

// An announcement is the private data of a request for a peer's queue pair. It names the requester.
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

// now returns the tick.
func (c *PacketConn) now() uint32 {
	if c.e == nil {
		return 0
	}
	return c.e.ticks.Load()
}

// learn keeps the address that a peer has announced. Its host is the one that the request came from.
func (c *PacketConn) learn(host netip.Addr, b []byte) {
	host = host.Unmap().WithZone("")
	if len(b) < announceLen || string(b[:4]) != announceMagic || !host.IsValid() {
		return
	}
	a := &PacketAddr{of: c, qpn: binary.LittleEndian.Uint32(b[4:]), qkey: c.qkey,
		ap: netip.AddrPortFrom(host, binary.LittleEndian.Uint16(b[8:]))}
	a.attr = ibv.AHAttr{Port: c.port, Global: true, DGID: ibv.GID(host.As16()), SGIDIndex: c.sgid[true],
		HopLimit: packetHops}
	c.mu.Lock()
	_, unused := c.keep(a, c.now())
	c.mu.Unlock()
	closeAHs(unused)
}
