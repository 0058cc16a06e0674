package datagram

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// world is a socket without a device, and queue pairs of one host.
type world struct {
	*Table
	Port
	host netip.Addr
}

// pairAddr is an address as a program has it.
type pairAddr struct{ Address }

func (pairAddr) Network() string  { return "udp" }
func (a pairAddr) String() string { return a.Address.String() }

func newWorld() world {
	t := NewTable(func(a Address) net.Addr { return pairAddr{a} })
	return world{Table: &t, host: netip.MustParseAddr("10.8.0.2")}
}

// at is an address of the host.
func (w world) at(port uint16) netip.AddrPort { return netip.AddrPortFrom(w.host, port) }

// pair is a queue pair of the host.
func (w world) pair(qpn uint32) *Address {
	return &Address{AP: w.at(0), QPN: qpn, Attr: ibv.AHAttr{Global: true, DGID: ibv.GID(w.host.As16())}}
}

// replies has the owner of a port name a queue pair.
func (w world) replies(port uint16, qpn, now uint32) *Name {
	n, _ := w.Found(w.at(port), w.pair(qpn), rdmacm.UDPQKey, now)
	return n
}

// datagram has a queue pair send a datagram that states a port, and returns the address that it comes from.
func (w world) datagram(t *testing.T, qpn uint32, port uint16) string {
	t.Helper()
	wc := &ibv.WC{SrcQPN: qpn, Flags: ibv.WCGRH | ibv.WCWithImm, Imm: State(port)}
	header := make([]byte, GRHLen)
	header[20] = 0x45 // an IPv4 header
	b := w.host.As4()
	copy(header[32:], b[:])
	a, err := w.From(wc, header)
	if err != nil {
		t.Fatal(err)
	}
	from, _, _ := w.Came(&a, Stated(wc), 0)
	return from.String()
}

// leads returns the number of the queue pair to which datagrams for a port are sent.
func (w world) leads(t *testing.T, port uint16) uint32 {
	t.Helper()
	n := w.Find(w.at(port))
	if n == nil {
		t.Fatalf("the owner of port %d is not known", port)
	}
	return n.peer.Addr.QPN
}

// unproven returns the address that a request from host announces, if its owner is to be asked.
func (w world) unproven(host netip.Addr, private []byte) (netip.AddrPort, bool) {
	a, ok := w.Announced(host, private)
	return a.AP, ok && !w.Proven(a, 0)
}

// TestPacketPeers has more queue pairs and addresses than are kept. Addresses lead to peers that are kept, and what is
// under way stays.
func TestPacketPeers(t *testing.T) {
	w := newWorld()
	busy := w.replies(1, 1, 0).peer
	busy.busy = 1
	w.To = w.replies(2, 2, 0)
	check := func() {
		t.Helper()
		if len(w.peers) > PeersMost || len(w.named) > PeersMost {
			t.Fatalf("%d peers, %d addresses; want at most %d", len(w.peers), len(w.named), PeersMost)
		}
		if w.named[w.at(2)] != w.To || w.To.peer.gone {
			t.Fatal("the peer of a dialed socket is forgotten")
		}
	}
	for qpn := uint32(3); qpn < 3*PeersMost; qpn++ {
		w.replies(uint16(qpn%5000+10), qpn, 0)
		check()
	}
	for port := range uint16(3 * PeersMost) { // of one queue pair
		w.replies(port+10, 7, 0)
		check()
	}
	for ap, n := range w.named {
		if n.peer.gone || n.AP != ap || w.peers[n.peer.Addr.source()] != n.peer {
			t.Fatalf("%v leads to %v, which is not kept", ap, n.peer.Addr)
		}
	}
	if busy.gone || w.peers[busy.Addr.source()] != busy {
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
		do   func(t *testing.T, w world)
	}
	steps := []step{
		{"the service replies", func(_ *testing.T, w world) { w.replies(80, 8, 0) }},
		{"the thief replies", func(_ *testing.T, w world) { w.replies(99, 9, 0) }},
		{"the thief names the service's queue pair", func(_ *testing.T, w world) { w.replies(99, 8, 0) }},
		{"the thief names it with another Q_Key", func(_ *testing.T, w world) {
			w.Found(w.at(99), w.pair(8), 7, 0)
		}},
		{"the service sends", func(t *testing.T, w world) {
			if from := w.datagram(t, 8, 80); from != service && from != w.pair(8).String() {
				t.Errorf("a datagram of the service is from %s", from)
			}
		}},
		{"the thief sends as the service", func(t *testing.T, w world) {
			if from := w.datagram(t, 9, 80); from != w.pair(9).String() {
				t.Errorf("a datagram of the thief is from %s", from)
			}
		}},
		{"the thief sends", func(t *testing.T, w world) {
			if from := w.datagram(t, 9, 99); from != thief && from != w.pair(9).String() {
				t.Errorf("a datagram of the thief is from %s", from)
			}
		}},
		{"the thief announces the service's port", func(t *testing.T, w world) {
			if ap, ask := w.unproven(w.host, announce(9, 80)); !ask || ap != w.at(80) {
				t.Errorf("believes it: asks %v, %v", ap, ask)
			}
		}},
	}
	for _, order := range orders(len(steps), 4) {
		w := newWorld()
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
		for _, n := range []*Name{w.named[w.at(80)], &w.peers[w.pair(8).source()].Self} {
			if n.QKey != rdmacm.UDPQKey {
				t.Fatalf("the service's Q_Key is %#x", n.QKey)
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
	b := binary.LittleEndian.AppendUint32([]byte(AnnounceMagic), qpn)
	return append(binary.LittleEndian.AppendUint16(b, port), make([]byte, 6)...)
}

// TestPacketUnproven reads what a peer announces with its request, or does not. The owner of the address is asked,
// unless it has named that queue pair itself a short time ago.
func TestPacketUnproven(t *testing.T) {
	w := newWorld()
	w.Local = netip.MustParseAddrPort("[fe80::1%lo]:7")
	good := announce(0x11, 12345)
	for _, c := range []struct {
		name, host string
		data       []byte
		want       string
	}{
		{"none", "10.8.0.2", nil, ""}, {"too short", "10.8.0.2", good[:AnnounceLen-1], ""},
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
	n.asked -= AskAlways
	if _, ask := w.unproven(w.host, good); !ask {
		t.Error("an old reply is believed")
	}
	n.asked, n.Lost = 0, true
	if _, ask := w.unproven(w.host, good); !ask {
		t.Error("an address without an owner is believed")
	}
}

// TestPacketAges has the times after which the owner of an address is asked again, also when the number of ticks wraps.
func TestPacketAges(t *testing.T) {
	for _, begin := range []uint32{0, 1<<32 - 5} {
		w := newWorld()
		n := w.replies(7, 1, begin)
		w.To = n
		want := func(now uint32, must bool) {
			t.Helper()
			if got := w.MustAsk(n, begin+now); got != must {
				t.Errorf("from tick %d, after %d: asked %v, want %v", begin, now, got, must)
			}
		}
		want(AskAfter-1, false)
		want(AskAfter, true)
		want(AskAfter+1, false) // it is asked
		w.Asked(n, begin+AskAfter+5, errors.New("no reply"))
		want(AskAfter+5+askSoon-1, false)
		want(AskAfter+5+askSoon, true)
		w.replies(7, 1, begin+100)
		w.Asked(n, begin+100, nil)
		want(100+AskAfter-1, false)
		n.heard = begin + 100 + AskAlways - 1 // as by datagrams, which may be of another program by now
		want(100+AskAlways-1, false)
		want(100+AskAlways, true)
		// It has restarted, with another queue pair.
		w.replies(7, 2, begin+200)
		w.Asked(n, begin+200, nil)
		if w.To.peer.Addr.QPN != 2 || w.leads(t, 7) != 2 || w.asks != 0 {
			t.Errorf("after a restart %v is sent to, and %d are asked", w.To.peer.Addr, w.asks)
		}
		// It has ended: its queue pair may become another program's.
		want(200+AskAfter, true)
		w.Asked(n, begin+210, &ibv.OpError{Err: &rdmacm.RejectError{Reason: rdmacm.RejectInvalidServiceID}})
		if !n.Lost || w.datagram(t, 2, 7) == n.UDP.String() {
			t.Error("an address without an owner still leads to its old queue pair")
		}
		if n = w.replies(7, 3, begin+220); n != w.To || n.Lost {
			t.Error("a dialed socket does not learn that its peer is back")
		}
	}
	w := newWorld()
	nameless, _ := w.Keep(w.pair(3))
	if w.MustAsk(&nameless.Self, 1000) {
		t.Error("a peer without an address is asked")
	}
	for i := range uint32(2 * AskMost) {
		if got := w.MustAsk(w.replies(uint16(1000+i), 10+i, 0), 1000); got != (i < AskMost) {
			t.Errorf("peer %d is asked: %v, want at most %d at a time", i, got, AskMost)
		}
	}
}

// newSlots returns the slots of socket 200.
func newSlots(mtu int) *Slots {
	s := new(Slots)
	list := make([]*blocks.Block, BlocksFor(4*Stride(mtu), mtu))
	for i := range list {
		list[i] = &blocks.Block{Mem: make([]byte, 4*Stride(mtu)), Addr: uint64(i) << 32}
	}
	s.Cut(200, list, mtu)
	return s
}

// TestPacketRing has random numbers of datagrams come and be read, many times as many as there are slots. Of three
// times one has to be without an allocation: the runtime, and goroutines of tests before, allocate as well.
func TestPacketRing(t *testing.T) {
	least := packetRing(t)
	for try := 1; try < 3 && least > 0; try++ {
		least = min(least, packetRing(t))
	}
	if least > 0 {
		t.Errorf("%v allocations", least)
	}
}

// packetRing returns how many allocations there were.
func packetRing(t *testing.T) float64 {
	sockets := []*Slots{newSlots(64), newSlots(64)}
	for _, s := range sockets {
		s.Limit(Recvs, Sends)
	}
	var order [Recvs]uint32
	return testing.AllocsPerRun(1, func() { // the first run is not counted, and has a socket of its own
		s := sockets[0]
		sockets = sockets[1:]
		came, read := 0, 0
		for range 1000 {
			for range rand.IntN(len(s.unposted) + 1) {
				slot := s.unposted[len(s.unposted)-1]
				s.unposted, order[came%Recvs] = s.unposted[:len(s.unposted)-1], slot
				s.outstanding++
				s.Complete(&ibv.WC{ID: s.id(0, slot), ByteLen: GRHLen})
				if came++; s.Unread() != came-read {
					t.Fatalf("%d datagrams are unread, want %d", s.Unread(), came-read)
				}
			}
			for range rand.IntN(s.Unread() + 1) {
				wc, _ := s.Take()
				if uint32(wc.ID) != order[read%Recvs] {
					t.Fatalf("datagram %d is of slot %d, want %d", read, uint32(wc.ID), order[read%Recvs])
				}
				s.GiveBack(&wc, true)
				read++
			}
		}
	})
}

// TestPacketSlots has datagrams sent and received, and completions of each kind.
func TestPacketSlots(t *testing.T) {
	const index, mtu = 200, 1024
	s := newSlots(mtu)
	s.Limit(Recvs/2, Sends/2)
	if s.Receives() != Recvs/2 || !s.AllSent() || !s.AtRest() || !s.MaySend() {
		t.Fatalf("at first: %d receives, all sent: %v, at rest: %v", s.Receives(), s.AllSent(), s.AtRest())
	}
	seen := map[*byte]bool{}
	for range Sends / 2 {
		slot, payload := s.TakeSend()
		if len(payload) != mtu || seen[&payload[0]] {
			t.Fatalf("slot %d has %d bytes, or those of another", slot, len(payload))
		}
		seen[&payload[0]] = true
		p := newPeer(Address{}, nil, 0)
		p.Hold()
		s.sends[slot].peer = p
		s.outstanding++
	}
	if s.MaySend() {
		t.Error("more slots are free than there are work requests")
	}
	for slot := range uint32(Sends / 4) { // the others stay under way
		wc, p := &ibv.WC{ID: s.id(idSend, slot)}, s.sends[slot].peer
		if at, ok := Socket(wc); !ok || at != index {
			t.Fatalf("a completion is of socket %d, %v", at, ok)
		}
		if sent, came := s.Complete(wc); !sent || came || p.busy != 0 || !s.MaySend() {
			t.Fatalf("sent: %v, came: %v, %d sends use the peer", sent, came, p.busy)
		}
	}
	if s.AllSent() || s.AtRest() {
		t.Error("all is sent while completions are missing")
	}
	for slot := range uint32(Recvs / 2) {
		s.unposted = s.unposted[:len(s.unposted)-1]
		s.outstanding++
		if sent, came := s.Complete(&ibv.WC{ID: s.id(0, slot), ByteLen: GRHLen + 1}); sent || !came {
			t.Fatalf("sent: %v, came: %v", sent, came)
		}
	}
	if c := s.Counts; s.Unread() != Recvs/2 || c.Full != 1 {
		t.Errorf("%d unread, %d times full", s.Unread(), c.Full)
	}
	for i := range Recvs / 2 {
		wc, mem := s.Take()
		if uint32(wc.ID) != uint32(i) || len(mem) != GRHLen+mtu {
			t.Fatalf("datagram %d has %d bytes", uint32(wc.ID), len(mem))
		}
		if post := s.GiveBack(&wc, i%2 == 0); post != (len(s.unposted) == repost || i == Recvs/2-1) {
			t.Errorf("after %d: post %v", i, post)
		}
	}
	if c := s.Counts; c.Received != Recvs/4 || c.Dropped != Recvs/4 {
		t.Errorf("counts %+v", c)
	}
	s.outstanding++
	if sent, came := s.Complete(&ibv.WC{ID: s.id(0, 0), Status: ibv.WCWRFlushErr}); sent || came || s.Unread() != 0 {
		t.Error("a receive that failed counts as a datagram")
	}
	if len(s.Uncut()) != BlocksFor(4*Stride(mtu), mtu) || s.Uncut() != nil {
		t.Error("blocks are kept")
	}
}
