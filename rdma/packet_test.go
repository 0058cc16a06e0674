package rdma

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// packetWorld is a socket without a device, and queue pairs of one host.
type packetWorld struct {
	*PacketConn
	host netip.Addr
}

func newPacketWorld() packetWorld {
	return packetWorld{&PacketConn{packetTable: newPacketTable()}, netip.MustParseAddr("10.8.0.2")}
}

// at is an address of the host.
func (w packetWorld) at(port uint16) netip.AddrPort { return netip.AddrPortFrom(w.host, port) }

// pair is a queue pair of the host.
func (w packetWorld) pair(qpn uint32) *PacketAddr {
	return &PacketAddr{of: w.PacketConn, ap: w.at(0), qpn: qpn,
		attr: ibv.AHAttr{Global: true, DGID: ibv.GID(w.host.As16())}}
}

// replies has the owner of a port name a queue pair.
func (w packetWorld) replies(port uint16, qpn, now uint32) *packetName {
	n, _ := w.found(w.at(port), w.pair(qpn), rdmacm.UDPQKey, now)
	return n
}

// datagram has a queue pair send a datagram that states a port, and returns what ReadFrom does.
func (w packetWorld) datagram(t *testing.T, qpn uint32, port uint16) string {
	t.Helper()
	wc := &ibv.WC{SrcQPN: qpn, Flags: ibv.WCGRH | ibv.WCWithImm, Imm: statedPort | uint32(port)}
	header := make([]byte, grhLen)
	header[20] = 0x45 // an IPv4 header
	a := w.host.As4()
	copy(header[32:], a[:])
	addr, _, err := w.from(wc, header)
	ok(t, err)
	return addr.String()
}

// leads returns the number of the queue pair to which datagrams for a port are sent.
func (w packetWorld) leads(t *testing.T, port uint16) uint32 {
	t.Helper()
	n, err := w.addressee(bound{}, net.UDPAddrFromAddrPort(w.at(port)))
	ok(t, err)
	return n.peer.addr.qpn
}

// TestPacketPeers has more queue pairs and addresses than are kept. Addresses lead to peers that are kept, and what is
// under way stays.
func TestPacketPeers(t *testing.T) {
	w := newPacketWorld()
	busy := w.replies(1, 1, 0).peer
	busy.busy = 1
	w.to = w.replies(2, 2, 0)
	check := func() {
		t.Helper()
		if len(w.peers) > packetPeers || len(w.named) > packetPeers {
			t.Fatalf("%d peers, %d addresses; want at most %d", len(w.peers), len(w.named), packetPeers)
		}
		if w.named[w.at(2)] != w.to || w.to.peer.gone {
			t.Fatal("the peer of a dialed socket is forgotten")
		}
	}
	for qpn := uint32(3); qpn < 3*packetPeers; qpn++ {
		w.replies(uint16(qpn%5000+10), qpn, 0)
		check()
	}
	for port := range uint16(3 * packetPeers) { // of one queue pair
		w.replies(port+10, 7, 0)
		check()
	}
	for ap, n := range w.named {
		if n.peer.gone || n.ap != ap || w.peers[n.peer.addr.source()] != n.peer {
			t.Fatalf("%v leads to %v, which is not kept", ap, n.peer.addr)
		}
	}
	if busy.gone || w.peers[busy.addr.source()] != busy {
		t.Error("a peer to which something is under way is forgotten")
	}
	if s := w.pair(0x1a).String(); s != "10.8.0.2 qp 0x1a" {
		t.Errorf("without a port: %s", s)
	}
}

// TestPacketNames has a service with port 80 and queue pair 8, and a thief with port 99 and queue pair 9. The thief
// claims what it does not own, in each way and each order. A datagram for port 80 goes to 8, and one that comes from 80
// was sent by 8.
func TestPacketNames(t *testing.T) {
	const service, thief = "10.8.0.2:80", "10.8.0.2:99"
	type step struct {
		name string
		do   func(t *testing.T, w packetWorld)
	}
	steps := []step{
		{"the service replies", func(_ *testing.T, w packetWorld) { w.replies(80, 8, 0) }},
		{"the thief replies", func(_ *testing.T, w packetWorld) { w.replies(99, 9, 0) }},
		{"the thief names the service's queue pair", func(_ *testing.T, w packetWorld) { w.replies(99, 8, 0) }},
		{"the thief names it with another Q_Key", func(_ *testing.T, w packetWorld) {
			w.found(w.at(99), w.pair(8), 7, 0)
		}},
		{"the service sends", func(t *testing.T, w packetWorld) {
			if from := w.datagram(t, 8, 80); from != service && from != w.pair(8).String() {
				t.Errorf("a datagram of the service is from %s", from)
			}
		}},
		{"the thief sends as the service", func(t *testing.T, w packetWorld) {
			if from := w.datagram(t, 9, 80); from != w.pair(9).String() {
				t.Errorf("a datagram of the thief is from %s", from)
			}
		}},
		{"the thief sends", func(t *testing.T, w packetWorld) {
			if from := w.datagram(t, 9, 99); from != thief && from != w.pair(9).String() {
				t.Errorf("a datagram of the thief is from %s", from)
			}
		}},
		{"the thief announces the service's port", func(t *testing.T, w packetWorld) {
			if ap, ask := w.unproven(w.host, announce(9, 80)); !ask || ap != w.at(80) {
				t.Errorf("believes it: asks %v, %v", ap, ask)
			}
		}},
	}
	for _, order := range orders(len(steps), 4) {
		w := newPacketWorld()
		for _, i := range order {
			steps[i].do(t, w)
		}
		w.replies(80, 8, 0) // the service is there, whatever came before
		if to, from := w.leads(t, 80), w.datagram(t, 8, 80); to != 8 || from != service {
			t.Errorf("a datagram for the service goes to queue pair %d, its own are from %s, after:", to, from)
			for _, i := range order {
				t.Log(steps[i].name)
			}
			return
		}
		for _, n := range []*packetName{w.named[w.at(80)], &w.peers[w.pair(8).source()].self} {
			if n.qkey != rdmacm.UDPQKey {
				t.Fatalf("the service's Q_Key is %#x", n.qkey)
			}
		}
		if from := w.datagram(t, 9, 80); from != w.pair(9).String() {
			t.Fatalf("a datagram of the thief is from %s", from)
		}
		if t.Failed() {
			return
		}
	}
}

// orders returns all ways to choose k of n things, in each order.
func orders(n, k int) (all [][]int) {
	if k == 0 {
		return [][]int{nil}
	}
	for _, o := range orders(n, k-1) {
		for i := range n {
			if !slices.Contains(o, i) {
				all = append(all, append(slices.Clone(o), i))
			}
		}
	}
	return all
}

// announce is the private data of a request that claims a port for a queue pair.
func announce(qpn uint32, port uint16) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(announceMagic), qpn)
	return append(binary.LittleEndian.AppendUint16(b, port), make([]byte, 6)...)
}

// TestPacketUnproven reads what a peer announces with its request, or does not. The owner of the address is asked,
// unless it has named that queue pair itself a short time ago.
func TestPacketUnproven(t *testing.T) {
	w := newPacketWorld()
	w.local = netip.MustParseAddrPort("[fe80::1%lo]:7")
	good := announce(0x11, 12345)
	for _, c := range []struct {
		name, host string
		data       []byte
		want       string
	}{
		{"none", "10.8.0.2", nil, ""}, {"too short", "10.8.0.2", good[:announceLen-1], ""},
		{"other private data", "10.8.0.2", append([]byte("PVRX"), good[4:]...), ""},
		{"no port", "10.8.0.2", announce(0x11, 0), ""}, {"no host", "", good, ""},
		{"good", "::ffff:10.8.0.2", append(good, "padding"...), "10.8.0.2:12345"},
		{"link-local", "fe80::2", good, "[fe80::2%lo]:12345"},
	} {
		host, _ := netip.ParseAddr(c.host)
		ap, ask := w.unproven(host, c.data)
		if ask != (c.want != "") || ask && ap.String() != c.want {
			t.Errorf("%s: asks %v, %v; want %q", c.name, ap, ask, c.want)
		}
	}
	n := w.replies(12345, 0x11, 0)
	if _, ask := w.unproven(w.host, good); ask {
		t.Error("an owner is asked that has just replied")
	}
	if _, ask := w.unproven(w.host, announce(0x12, 12345)); !ask {
		t.Error("another queue pair is believed")
	}
	n.asked -= askAlways
	if _, ask := w.unproven(w.host, good); !ask {
		t.Error("an old reply is believed")
	}
	n.asked, n.lost = 0, true
	if _, ask := w.unproven(w.host, good); !ask {
		t.Error("an address without an owner is believed")
	}
}

// TestPacketAges has the times after which the owner of an address is asked again, also when the number of ticks wraps.
func TestPacketAges(t *testing.T) {
	for _, begin := range []uint32{0, 1<<32 - 5} {
		w := newPacketWorld()
		n := w.replies(7, 1, begin)
		w.to = n
		want := func(now uint32, must bool) {
			t.Helper()
			if got := w.mustAsk(n, begin+now); got != must {
				t.Errorf("from tick %d, after %d: asked %v, want %v", begin, now, got, must)
			}
		}
		want(askAfter-1, false)
		want(askAfter, true)
		want(askAfter+1, false) // it is asked
		w.asked(n, begin+askAfter+5, errors.New("no reply"))
		want(askAfter+5+askSoon-1, false)
		want(askAfter+5+askSoon, true)
		w.replies(7, 1, begin+100)
		w.asked(n, begin+100, nil)
		want(100+askAfter-1, false)
		n.heard = begin + 100 + askAlways - 1 // as by datagrams, which may be of another program by now
		want(100+askAlways-1, false)
		want(100+askAlways, true)
		// It has restarted, with another queue pair.
		w.replies(7, 2, begin+200)
		w.asked(n, begin+200, nil)
		if w.to.peer.addr.qpn != 2 || w.leads(t, 7) != 2 || w.asks != 0 {
			t.Errorf("after a restart %v is sent to, and %d are asked", w.to.peer.addr, w.asks)
		}
		// It has ended: its queue pair may become another program's.
		want(200+askAfter, true)
		w.asked(n, begin+210, &ibv.OpError{Err: &rdmacm.RejectError{Reason: rdmacm.RejectInvalidServiceID}})
		if !n.lost || w.datagram(t, 2, 7) == n.udp.String() {
			t.Error("an address without an owner still leads to its old queue pair")
		}
		if n = w.replies(7, 3, begin+220); n != w.to || n.lost {
			t.Error("a dialed socket does not learn that its peer is back")
		}
	}
	w := newPacketWorld()
	nameless, _ := w.keep(w.pair(3))
	if w.mustAsk(&nameless.self, 1000) {
		t.Error("a peer without an address is asked")
	}
	for i := range uint32(2 * askMost) {
		if got := w.mustAsk(w.replies(uint16(1000+i), 10+i, 0), 1000); got != (i < askMost) {
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
			full := r.push(&ibv.WC{ID: next})
			if next++; full != (next-want == packetRecvs) {
				t.Fatalf("full is %v with %d datagrams", full, next-want)
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
