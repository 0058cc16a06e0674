package rdma

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// TestPacketPeers has more sources than are kept. Names lead to peers that are kept, and what is under way stays.
func TestPacketPeers(t *testing.T) {
	c := &PacketConn{packetTable: newPacketTable()}
	host := netip.MustParseAddr("10.8.0.2")
	addr := func(qpn uint32, port uint16) *PacketAddr {
		return &PacketAddr{of: c, ap: netip.AddrPortFrom(host, port), qpn: qpn,
			attr: ibv.AHAttr{Global: true, DGID: ibv.GID(host.As16())}}
	}
	busy, _ := c.keep(addr(1, 1), 0)
	busy.busy = 1
	for qpn := uint32(2); qpn < 3*packetPeers; qpn++ {
		c.keep(addr(qpn, uint16(qpn%5000)), 0)
		if len(c.peers) > packetPeers || len(c.named) > len(c.peers) {
			t.Fatalf("%d peers, %d names; want at most %d", len(c.peers), len(c.named), packetPeers)
		}
	}
	for name, p := range c.named {
		if p.gone || p.addr.ap != name || c.peers[p.addr.source()] != p {
			t.Fatalf("the name %v leads to %v, which is not kept", name, p.addr)
		}
	}
	if busy.gone || c.peers[busy.addr.source()] != busy {
		t.Error("a peer to which something is under way is forgotten")
	}

	p, _ := c.keep(addr(77, 7000), 0)
	if again, _ := c.keep(addr(77, 0), 0); again != p || p.addr.String() != "10.8.0.2:7000" {
		t.Errorf("a datagram without a name takes the name: %v", p.addr)
	}
	c.keep(addr(77, 7001), 0)
	if p.addr.String() != "10.8.0.2:7001" || c.named[netip.AddrPortFrom(host, 7000)] != nil {
		t.Errorf("the new name: %v", p.addr)
	}
	if s := addr(0x1a, 0).String(); s != "10.8.0.2 qp 0x1a" {
		t.Errorf("without a port: %s", s)
	}
}

// TestPacketLearn reads what a peer tells with its request, or does not.
func TestPacketLearn(t *testing.T) {
	c := &PacketConn{packetTable: newPacketTable()}
	host := netip.MustParseAddr("::ffff:10.8.0.2")
	for _, other := range []string{"", "PVRD", "PVRD\x11\x00\x00\x00\x39\x30\x00\x00\x00\x00\x00", "PVRX" +
		"\x11\x00\x00\x00\x39\x30\x00\x00\x00\x00\x00\x00"} {
		c.learn(host, []byte(other))
	}
	c.learn(netip.Addr{}, []byte("PVRD\x11\x00\x00\x00\x39\x30\x00\x00\x00\x00\x00\x00"))
	if len(c.peers) > 0 {
		t.Errorf("%d peers of requests that tell nothing", len(c.peers))
	}
	c.learn(host, []byte("PVRD\x11\x00\x00\x00\x39\x30\x00\x00\x00\x00\x00\x00 and padding"))
	p, err := c.addressee(bound{}, net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.8.0.2:12345")))
	if err != nil || p.addr.qpn != 0x11 || p.addr.attr.DGID.String() != "::ffff:10.8.0.2" {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestPacketAges has the times after which a peer is asked again, also when the number of ticks wraps.
func TestPacketAges(t *testing.T) {
	host := netip.MustParseAddr("10.8.0.2")
	c := &PacketConn{packetTable: newPacketTable()}
	addr := func(qpn uint32, port uint16) *PacketAddr {
		return &PacketAddr{of: c, ap: netip.AddrPortFrom(host, port), qpn: qpn,
			attr: ibv.AHAttr{Global: true, DGID: ibv.GID(host.As16())}}
	}
	for _, begin := range []uint32{0, 1<<32 - 5} {
		c.packetTable = newPacketTable()
		p, _ := c.found(addr(1, 7), begin)
		c.to = p
		want := func(now uint32, must bool) {
			t.Helper()
			if got := c.mustAsk(p, begin+now); got != must {
				t.Errorf("from tick %d, after %d: asked %v, want %v", begin, now, got, must)
			}
		}
		want(askAfter-1, false)
		want(askAfter, true)
		want(askAfter+1, false) // it is asked
		c.asked(p, begin+askAfter+5, false)
		want(askAfter+5+askSoon-1, false)
		want(askAfter+5+askSoon, true)
		c.asked(p, begin+100, true)
		want(100+askAfter-1, false)
		if same, _ := c.keep(addr(1, 0), begin+105); same != p { // a datagram
			t.Errorf("a datagram of %v is from %v", p.addr, same.addr)
		}
		want(105+askAfter-1, false)
		want(105+askAfter, true)
		// It has restarted: another queue pair has the name.
		again, _ := c.found(addr(2, 7), begin+120)
		c.asked(p, begin+120, true)
		if c.to != again || c.named[p.addr.ap] != again || c.asks != 0 {
			t.Errorf("after a restart %v is sent to, and %d are asked", c.to.addr.qpn, c.asks)
		}
	}
	nameless, _ := c.keep(addr(3, 0), 0)
	if c.mustAsk(nameless, 1000) {
		t.Error("a peer without a name is asked")
	}
	for i := range uint32(2 * askMost) {
		p, _ := c.keep(addr(10+i, uint16(1000+i)), 0)
		if got := c.mustAsk(p, 1000); got != (i < askMost) {
			t.Errorf("peer %d is asked: %v, want at most %d at a time", i, got, askMost)
		}
	}
}

// TestPacketRing has random numbers of datagrams come and be read.
func TestPacketRing(t *testing.T) {
	var r packetRing
	next, want := uint64(0), uint64(0)
	for range 1000 {
		for range rand.IntN(packetRecvs - r.count + 1) {
			r.push(&ibv.WC{ID: next})
			if next++; r.count != int(next-want) {
				t.Fatalf("%d datagrams are in the ring, want %d", r.count, next-want)
			}
		}
		for range rand.IntN(r.count + 1) {
			if wc := r.pop(); wc.ID != want {
				t.Fatalf("datagram %d, want %d", wc.ID, want)
			}
			want++
		}
	}
}
