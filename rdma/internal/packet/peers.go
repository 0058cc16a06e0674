package packet

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/foreign"
	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// from returns the address of the peer that has sent a datagram. ours is false if a dialed socket has another peer.
func (c *Conn) from(wc *ibv.WC, header []byte) (addr net.Addr, ours bool, err error) {
	a, err := c.At.From(wc, header)
	if err != nil {
		return nil, false, err
	}
	now := c.now()
	c.Mu.Lock()
	addr, ours, unused := c.Table.Came(&a, datagram.Stated(wc), now)
	c.Mu.Unlock()
	CloseAHs(unused)
	return addr, ours, nil
}

// CloseAHs closes the address handles that a table no longer needs.
func CloseAHs(list []*ibv.AH) {
	for _, ah := range list {
		_ = ah.Close()
	}
}

// addressee returns where to send a datagram for an address, which is that of a queue pair if from is not nil. Its
// owner may have to be asked.
func (c *Conn) addressee(b turn.Bound, addr net.Addr, from *Source) (*datagram.Name, error) {
	var to netip.AddrPort
	switch a := addr.(type) {
	case *net.UDPAddr:
		to = a.AddrPort()
	case nil:
	default:
		if from == nil {
			foreign.Call(func() { to, _ = netip.ParseAddrPort(a.String()) }, nil)
		} else if to = from.At.AP; from.Of == c {
			c.Mu.Lock()
			p, unused := c.Table.Keep(&from.At)
			c.Mu.Unlock()
			CloseAHs(unused)
			return &p.Self, nil
		}
	}
	if !to.Addr().IsValid() || to.Port() == 0 && !to.Addr().IsMulticast() {
		return nil, &ibv.ArgError{Arg: "addr", Got: fmt.Sprint(addr), Want: "an IP address and a port, or an address " +
			"that this PacketConn's ReadFrom returned"}
	}
	to = netip.AddrPortFrom(c.At.Host(to.Addr()), to.Port())
	c.Mu.Lock()
	n := c.Table.Find(to)
	c.Mu.Unlock()
	switch {
	case n != nil:
		return n, nil
	case to.Addr().IsMulticast():
		return nil, &ibv.ArgError{Arg: "addr", Got: to.String(), Want: "a group that was joined: see Join"}
	}
	return c.resolve(b, to, c.opt.Ask, true)
}

// unproven returns the address that a request from host announces, if its owner is to be asked before this side relies
// on it.
func (c *Conn) unproven(host netip.Addr, private []byte) (netip.AddrPort, bool) {
	a, ok := c.At.Announced(host, private)
	if !ok {
		return netip.AddrPort{}, false
	}
	now := c.now()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return a.AP, !c.Table.Proven(a, now)
}

// now returns the tick.
func (c *Conn) now() uint32 {
	if c.Shard == nil {
		return 0
	}
	return c.Shard.Ticks.Load()
}
