package rdma

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
)

// PacketAddr is where a datagram has come from: a queue pair, and the address of its PacketConn if that has sent it.
// PacketConn.WriteTo takes it, whatever happens to the cache of peers meanwhile.
type PacketAddr struct {
	of        *PacketConn    // whose device attr is for
	ap        netip.AddrPort // port 0 if it is not known
	attr      ibv.AHAttr
	qpn, qkey uint32
}

// Network returns "rdma".
func (a *PacketAddr) Network() string { return "rdma" }

// AddrPort returns the address. The port is 0 if the peer has not sent it: its QPN takes the place of the port, and
// only the PacketConn that has received the datagram can reply.
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

// source identifies the sender of a datagram.
type source struct {
	gid ibv.GID
	lid uint16 // without a GRH, on InfiniBand
	qpn uint32
}

func (a *PacketAddr) source() source {
	s := source{gid: a.attr.DGID, qpn: a.qpn}
	if !a.attr.Global {
		s.lid = a.attr.DLID
	}
	return s
}

// packetPeer is the state of a destination or sender.
type packetPeer struct {
	addr *PacketAddr
	ah   *ibv.AH // made when something is sent
	busy int     // sends that use it
	gone bool    // no longer kept
}

// packetPeers is how many peers are kept. A datagram's source costs nothing else, so a peer that makes up sources
// makes this side forget, and no more.
const packetPeers = 4096

// keep makes a the address of its source, unless that has a better name. It returns the peer, and AHs that the caller
// closes without c.mu.
// Preconditions: c.mu is held.
func (c *PacketConn) keep(a *PacketAddr) (p *packetPeer, unused []*ibv.AH) {
	s := a.source()
	if p = c.peers[s]; p == nil {
		if len(c.peers) >= packetPeers {
			unused = c.forget()
		}
		p = &packetPeer{addr: a}
		c.peers[s] = p
	} else if a.ap.Port() != 0 {
		c.unname(p)
		p.addr = a
	}
	if a.ap.Port() != 0 {
		c.named[a.ap] = p
	}
	return p, unused
}

// unname removes the name of a peer.
// Preconditions: c.mu is held.
func (c *PacketConn) unname(p *packetPeer) {
	if c.named[p.addr.ap] == p {
		delete(c.named, p.addr.ap)
	}
}

// forget removes some peers to which nothing is under way.
// Preconditions: c.mu is held.
func (c *PacketConn) forget() (unused []*ibv.AH) {
	n := packetPeers / 8
	for s, p := range c.peers {
		if p.busy > 0 || p == c.to {
			continue
		}
		if n--; n < 0 {
			break
		}
		p.gone = true
		c.unname(p)
		delete(c.peers, s)
		if p.ah != nil {
			unused = append(unused, p.ah)
			p.ah = nil
		}
	}
	return unused
}

// from returns the address of a datagram's sender.
func (c *PacketConn) from(wc *ibv.WC, header []byte) (*PacketAddr, error) {
	a := PacketAddr{of: c, qpn: wc.SrcQPN, qkey: c.qkey}
	a.attr = ibv.AHAttr{Port: c.port, DLID: wc.SLID, SL: wc.SL, SrcPathBits: wc.DLIDPathBits}
	if wc.Flags&ibv.WCGRH != 0 {
		h, err := ibv.ParseGRH(header)
		if err != nil {
			return nil, err
		}
		a.attr.Global, a.attr.DGID, a.attr.FlowLabel, a.attr.TrafficClass = true, h.From, h.FlowLabel, h.TrafficClass
		a.attr.SGIDIndex, a.attr.HopLimit = c.sgid[h.RoCEv2], packetHops
		a.ap = netip.AddrPortFrom(h.From.Addr(), 0)
	}
	c.mu.Lock()
	if p := c.peers[a.source()]; p != nil {
		known := p.addr
		c.mu.Unlock()
		return known, nil
	}
	kept := new(PacketAddr)
	*kept = a
	_, unused := c.keep(kept)
	c.mu.Unlock()
	closeAHs(unused)
	return kept, nil
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
				p, unused = c.keep(a)
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
	return c.resolve(b, to)
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
	_, unused := c.keep(a)
	c.mu.Unlock()
	closeAHs(unused)
}
