package rdma

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/foreign"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
)

// PacketAddr is the source of a datagram whose sender's port is not proven: a queue pair that is not of a PacketConn,
// or of one that has only sent to a group, or that was forgotten among others, or whose port has another owner.
// PacketConn.WriteTo takes it: a reply reaches that queue pair, and no other.
type PacketAddr struct {
	of *PacketConn // whose device the address is for
	at datagram.Address
}

// Network returns "udp".
func (a *PacketAddr) Network() string { return "udp" }

// AddrPort returns the address. The port is 0: the QPN takes its place, and only the PacketConn that has received the
// datagram can reply.
func (a *PacketAddr) AddrPort() netip.AddrPort { return a.at.AP }

// QPN returns the number of the queue pair.
func (a *PacketAddr) QPN() uint32 { return a.at.QPN }

// String returns the host and the queue pair.
func (a *PacketAddr) String() string {
	if a == nil {
		return "<nil>"
	}
	return a.at.String()
}

// from returns the address of the peer that has sent a datagram. ours is false if a dialed socket has another peer.
func (c *PacketConn) from(wc *ibv.WC, header []byte) (addr net.Addr, ours bool, err error) {
	a, err := c.at.From(wc, header)
	if err != nil {
		return nil, false, err
	}
	now := c.now()
	c.mu.Lock()
	addr, ours, unused := c.table.Came(&a, datagram.Stated(wc), now)
	c.mu.Unlock()
	closeAHs(unused)
	return addr, ours, nil
}

func closeAHs(list []*ibv.AH) {
	for _, ah := range list {
		_ = ah.Close()
	}
}

// addressee returns where to send a datagram for an address. Its owner may have to be asked.
func (c *PacketConn) addressee(b bound, addr net.Addr) (*datagram.Name, error) {
	var to netip.AddrPort
	switch a := addr.(type) {
	case *PacketAddr:
		if a != nil && a.of == c {
			c.mu.Lock()
			p, unused := c.table.Keep(&a.at)
			c.mu.Unlock()
			closeAHs(unused)
			return p.Self(), nil
		}
		if a != nil {
			to = a.at.AP
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
	to = netip.AddrPortFrom(c.at.Host(to.Addr()), to.Port())
	c.mu.Lock()
	n := c.table.Find(to)
	c.mu.Unlock()
	switch {
	case n != nil:
		return n, nil
	case to.Addr().IsMulticast():
		return nil, &ibv.ArgError{Arg: "addr", Got: to.String(), Want: "a group that was joined: see Join"}
	}
	return c.resolve(b, to, c.limit(), true)
}

// unproven returns the address that a request from host announces, if its owner is to be asked before this side relies
// on it.
func (c *PacketConn) unproven(host netip.Addr, private []byte) (netip.AddrPort, bool) {
	a, ok := c.at.Announced(host, private)
	if !ok {
		return netip.AddrPort{}, false
	}
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return a.AP, !c.table.Proven(a, now)
}

// now returns the tick.
func (c *PacketConn) now() uint32 {
	if c.e == nil {
		return 0
	}
	return c.e.ticks.Load()
}
