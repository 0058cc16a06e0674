package rdma

import (
	"net"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
)

// source identifies the sender of a datagram.
type source struct {
	gid ibv.GID
	lid uint16 // without a GRH, on InfiniBand
	qpn uint32
}

// packetPeer is the state of a destination or sender.
type packetPeer struct {
	addr   *PacketAddr
	name   *net.UDPAddr // of addr; nil if its port is not known
	ah     *ibv.AH      // made when something is sent
	busy   int          // sends that use it
	gone   bool         // no longer kept
	heard  uint32       // tick of the last sign that the queue pair has the address
	asking bool         // the address is asked again for its queue pair
}

// from returns the address that ReadFrom returns for the peer.
func (p *packetPeer) from() net.Addr {
	if p.name != nil {
		return p.name
	}
	return p.addr
}

const (
	// packetPeers is how many peers are kept. A datagram's source costs nothing else, so a peer that makes up sources
	// makes this side forget, and no more.
	packetPeers = 4096
	// askAfter is after how many ticks without a sign of life the address of a peer is asked again for its queue pair,
	// if something is sent to it: the peer may have restarted. After an attempt without a reply it is askSoon. At most
	// askMost peers are asked at a time.
	askAfter = 10
	askSoon  = 2
	askMost  = 64
)

// packetTable has the peers of a PacketConn, by source and by name. It has no lock: that of the PacketConn guards it.
type packetTable struct {
	peers  map[source]*packetPeer
	named  map[netip.AddrPort]*packetPeer
	groups map[netip.Addr]*packetPeer
	to     *packetPeer // of DialPacket
	asks   int         // peers that are asked
}

func newPacketTable() packetTable {
	return packetTable{peers: make(map[source]*packetPeer), named: make(map[netip.AddrPort]*packetPeer),
		groups: make(map[netip.Addr]*packetPeer)}
}

// keep makes a the address of its source, unless that has a better name. now is the tick. It returns the peer, and AHs
// that the caller closes without the lock.
func (t *packetTable) keep(a *PacketAddr, now uint32) (p *packetPeer, unused []*ibv.AH) {
	s := a.source()
	if p = t.peers[s]; p == nil {
		if len(t.peers) >= packetPeers {
			unused = t.forget()
		}
		p = &packetPeer{addr: a}
		t.peers[s] = p
	} else if a.ap.Port() != 0 {
		t.unname(p)
		p.addr = a
	}
	p.heard = now
	if a.ap.Port() != 0 {
		if p.name == nil || p.name.AddrPort() != a.ap {
			p.name = net.UDPAddrFromAddrPort(a.ap)
		}
		t.named[a.ap] = p
	}
	return p, unused
}

// found keeps the reply of an address that was asked. A dialed socket sends there from now on.
func (t *packetTable) found(a *PacketAddr, now uint32) (p *packetPeer, unused []*ibv.AH) {
	p, unused = t.keep(a, now)
	if t.to != nil && t.to.addr.ap == a.ap {
		t.to = p
	}
	return p, unused
}

// unname removes the name of a peer.
func (t *packetTable) unname(p *packetPeer) {
	if t.named[p.addr.ap] == p {
		delete(t.named, p.addr.ap)
	}
}

// forget removes some peers to which nothing is under way.
func (t *packetTable) forget() (unused []*ibv.AH) {
	n := packetPeers / 8
	for s, p := range t.peers {
		if p.busy > 0 || p == t.to {
			continue
		}
		if n--; n < 0 {
			break
		}
		p.gone = true
		t.unname(p)
		delete(t.peers, s)
		if p.ah != nil {
			unused = append(unused, p.ah)
			p.ah = nil
		}
	}
	return unused
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

// mustAsk reports whether the caller has to ask the address of p again, and calls asked afterwards.
func (t *packetTable) mustAsk(p *packetPeer, now uint32) bool {
	if now-p.heard < askAfter || p.asking || p.name == nil || t.asks == askMost {
		return false
	}
	p.asking = true
	t.asks++
	return true
}

// asked ends asking for p.
func (t *packetTable) asked(p *packetPeer, now uint32, replied bool) {
	p.asking = false
	t.asks--
	if p.heard = now; !replied {
		p.heard -= askAfter - askSoon
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

// push adds a datagram. There is a place for each receive.
func (r *packetRing) push(wc *ibv.WC) {
	r.in[(r.head+r.count)%packetRecvs] = *wc
	r.count++
}

// pop returns the next datagram. Its place is not used again before the receive is posted.
func (r *packetRing) pop() *ibv.WC {
	wc := &r.in[r.head]
	r.head = (r.head + 1) % packetRecvs
	r.count--
	return wc
}
