package rdma

import (
	"net"
	"net/netip"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// TestPacketPeers has more sources than are kept. Names lead to peers that are kept, and what is under way stays.
func TestPacketPeers(t *testing.T) {
	c := &PacketConn{peers: make(map[source]*packetPeer), named: make(map[netip.AddrPort]*packetPeer)}
	host := netip.MustParseAddr("10.8.0.2")
	addr := func(qpn uint32, port uint16) *PacketAddr {
		return &PacketAddr{of: c, ap: netip.AddrPortFrom(host, port), qpn: qpn,
			attr: ibv.AHAttr{Global: true, DGID: ibv.GID(host.As16())}}
	}
	busy, _ := c.keep(addr(1, 1))
	busy.busy = 1
	for qpn := uint32(2); qpn < 3*packetPeers; qpn++ {
		c.keep(addr(qpn, uint16(qpn%5000)))
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

	p, _ := c.keep(addr(77, 7000))
	if again, _ := c.keep(addr(77, 0)); again != p || p.addr.String() != "10.8.0.2:7000" {
		t.Errorf("a datagram without a name takes the name: %v", p.addr)
	}
	c.keep(addr(77, 7001))
	if p.addr.String() != "10.8.0.2:7001" || c.named[netip.AddrPortFrom(host, 7000)] != nil {
		t.Errorf("the new name: %v", p.addr)
	}
	if s := addr(0x1a, 0).String(); s != "10.8.0.2 qp 0x1a" {
		t.Errorf("without a port: %s", s)
	}
}

// TestPacketLearn reads what a peer tells with its request, or does not.
func TestPacketLearn(t *testing.T) {
	c := &PacketConn{peers: make(map[source]*packetPeer), named: make(map[netip.AddrPort]*packetPeer)}
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
