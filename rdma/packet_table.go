package rdma

import (
	"errors"
	"maps"
	"net"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// source identifies the queue pair that has sent a datagram. The adapters state it: a program cannot choose it.
type source struct {
	gid ibv.GID
	lid uint16 // without a GRH, on InfiniBand
	qpn uint32
}

// packetPeer is a queue pair that has sent a datagram, or to which an address leads.
type packetPeer struct {
	addr *PacketAddr // without a port
	ah   *ibv.AH     // made when something is sent
	busy int         // sends that use it
	gone bool        // no longer kept
	self packetName  // without an address: for this queue pair, whatever address it has
	name *packetName // of its last datagram; see nameOf
}

func newPacketPeer(a *PacketAddr, qkey uint32) *packetPeer {
	p := &packetPeer{addr: a}
	p.self = packetName{peer: p, qkey: qkey}
	return p
}

// packetName is an address, and the queue pair that its owner has named when it was asked. Nothing else changes it.
type packetName struct {
	ap     netip.AddrPort
	udp    *net.UDPAddr // ap; nil in packetPeer.self
	peer   *packetPeer
	qkey   uint32 // the owner has named it as well; it is not the peer's, which may have another owner
	asked  uint32 // tick of the owner's last reply
	heard  uint32 // tick of the last sign that the queue pair has the address
	asking bool   // the owner is asked again
	lost   bool   // the address has no owner any more
}

const (
	// packetPeers is how many peers, and how many addresses, are kept. A datagram's source costs nothing else, so a
	// peer that makes up sources makes this side forget, and no more.
	packetPeers = 4096
	// askAfter is after how many ticks without a sign of life the owner of an address is asked again for its queue
	// pair, if something is sent to it: it may have restarted. After askAlways ticks it is asked despite such signs:
	// its number may have become another program's. After an attempt without a reply it is askSoon. At most askMost are
	// asked at a time.
	askAfter  = 10
	askAlways = 60
	askSoon   = 2
	askMost   = 64
)

// packetTable has the peers of a PacketConn by source, and the addresses that lead to them. It has no lock: that of the
// PacketConn guards it.
type packetTable struct {
	peers  map[source]*packetPeer
	named  map[netip.AddrPort]*packetName
	groups map[netip.Addr]*packetPeer
	to     *packetName // of DialPacket
	asks   int         // addresses that are asked again
	qkey   uint32      // of the socket, and of peers whose address is not known
}

func newPacketTable() packetTable {
	return packetTable{peers: make(map[source]*packetPeer), named: make(map[netip.AddrPort]*packetName),
		groups: make(map[netip.Addr]*packetPeer), qkey: rdmacm.UDPQKey}
}

// keep returns the peer of a source, which is kept from now on, and AHs that the caller closes without the lock.
func (t *packetTable) keep(a *PacketAddr) (p *packetPeer, unused []*ibv.AH) {
	s := a.source()
	if p = t.peers[s]; p == nil {
		if len(t.peers) >= packetPeers {
			unused = t.forget()
		}
		p = newPacketPeer(a, t.qkey)
		t.peers[s] = p
	}
	return p, unused
}

// found keeps the reply of an address: its owner has named the queue pair a and a Q_Key. now is the tick. What
// is sent to the address, also by a dialed socket, is sent there from now on.
func (t *packetTable) found(ap netip.AddrPort, a *PacketAddr, qkey, now uint32) (n *packetName, unused []*ibv.AH) {
	p, unused := t.keep(a)
	if n = t.named[ap]; n == nil {
		if len(t.named) >= packetPeers {
			t.forgetNames()
		}
		n = t.to // it may have been forgotten before it was there
		if n == nil || n.ap != ap {
			n = &packetName{ap: ap, udp: net.UDPAddrFromAddrPort(ap)}
		}
		t.named[ap] = n
	}
	n.peer, n.qkey, n.asked, n.heard, n.lost = p, qkey, now, now, false
	if p.name == nil {
		p.name = n
	}
	return n, unused
}

// nameOf returns the address of a peer whose datagram states a port, if the owner of that address has named this peer.
// So a peer has the address only if both say so. Otherwise it returns nil.
func (t *packetTable) nameOf(p *packetPeer, port uint16) *packetName {
	n := p.name
	if n == nil || n.ap.Port() != port {
		n = t.named[netip.AddrPortFrom(p.addr.ap.Addr(), port)]
	}
	if n == nil || n.peer != p || n.lost {
		return nil
	}
	p.name = n
	return n
}

// forget removes some peers to which nothing is under way, and the addresses that lead to them.
func (t *packetTable) forget() (unused []*ibv.AH) {
	n := packetPeers / 8
	for s, p := range t.peers {
		if p.busy > 0 || t.to != nil && p == t.to.peer {
			continue
		}
		if n--; n < 0 {
			break
		}
		p.gone = true
		delete(t.peers, s)
		if p.ah != nil {
			unused = append(unused, p.ah)
			p.ah = nil
		}
	}
	maps.DeleteFunc(t.named, func(_ netip.AddrPort, n *packetName) bool { return n.peer.gone })
	return unused
}

// forgetNames removes some addresses.
func (t *packetTable) forgetNames() {
	left := packetPeers / 8
	maps.DeleteFunc(t.named, func(_ netip.AddrPort, n *packetName) bool {
		if n == t.to || left == 0 {
			return false
		}
		left--
		if n.peer.name == n {
			n.peer.name = nil
		}
		return true
	})
}

// current returns the peer that is kept for the source of p, which may have been forgotten.
func (t *packetTable) current(p *packetPeer) *packetPeer {
	if !p.gone {
		return p
	}
	if again := t.peers[p.addr.source()]; again != nil {
		return again
	}
	p.gone = false
	t.peers[p.addr.source()] = p
	return p
}

// mustAsk reports whether the caller has to ask the owner of an address again, and calls asked afterwards.
func (t *packetTable) mustAsk(n *packetName, now uint32) bool {
	if now-n.heard < askAfter && now-n.asked < askAlways || n.asking || n.udp == nil || t.asks == askMost {
		return false
	}
	n.asking = true
	t.asks++
	return true
}

// asked ends asking an address again. Its owner has replied if err is nil. If the peer's system says that it has none
// any more, the next datagram asks first: until then the queue pair's number may become another program's.
func (t *packetTable) asked(n *packetName, now uint32, err error) {
	n.asking = false
	t.asks--
	var reject *rdmacm.RejectError
	switch {
	case err == nil:
	case errors.As(err, &reject) && reject.Reason == rdmacm.RejectInvalidServiceID:
		n.lost = true
	default:
		n.heard, n.asked = now-askAfter+askSoon, now-askAlways+askSoon
	}
}

// clear removes all peers, and returns their AHs.
func (t *packetTable) clear() (ahs []*ibv.AH) {
	add := func(p *packetPeer) {
		if p.ah != nil {
			ahs = append(ahs, p.ah)
			p.ah = nil
		}
	}
	for _, p := range t.peers {
		add(p)
	}
	for _, p := range t.groups {
		add(p)
	}
	clear(t.peers)
	clear(t.named)
	clear(t.groups)
	return ahs
}

// packetRing has the datagrams that were received and not read, in their order.
type packetRing struct {
	in          [packetRecvs]ibv.WC
	head, count int
}

// push adds a datagram, and reports whether the ring is full now. There is a place for each receive.
func (r *packetRing) push(wc *ibv.WC) (full bool) {
	r.in[(r.head+r.count)%packetRecvs] = *wc
	r.count++
	return r.count == packetRecvs
}

// pop returns the next datagram. Its place is not used again before the receive is posted.
func (r *packetRing) pop() *ibv.WC {
	wc := &r.in[r.head]
	r.head = (r.head + 1) % packetRecvs
	r.count--
	return wc
}
