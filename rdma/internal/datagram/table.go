package datagram

import (
	"errors"
	"iter"
	"maps"
	"net"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// Peer is a queue pair that has sent a datagram, or to which an address leads.
type Peer struct {
	Addr   Address  // without a port
	public net.Addr // Addr, for the program
	AH     *ibv.AH  // made when something is sent; of a held peer the sender alone sets it
	Self   Name     // without an address: for this queue pair, whatever address it has
	busy   int      // sends that use it
	gone   bool     // no longer kept
	name   *Name    // of its last datagram; see nameOf
}

func newPeer(a Address, public net.Addr, qkey uint32) *Peer {
	p := &Peer{Addr: a, public: public}
	p.Self = Name{peer: p, QKey: qkey}
	return p
}

// Hold keeps the peer until Drop.
func (p *Peer) Hold() { p.busy++ }

// Drop undoes Hold.
func (p *Peer) Drop() { p.busy-- }

// Name is an address, and the queue pair that its owner has named when it was asked. Nothing else changes it.
type Name struct {
	AP     netip.AddrPort
	UDP    *net.UDPAddr // AP; nil in Peer.Self
	peer   *Peer
	QKey   uint32 // the owner has named it as well; it is not the peer's, which may have another owner
	asked  uint32 // tick of the owner's last reply
	heard  uint32 // tick of the last sign that the queue pair has the address
	asking bool   // the owner is asked again
	Lost   bool   // the address has no owner any more
}

const (
	// PeersMost is how many peers, and how many addresses, are kept. A datagram's source costs nothing else, so a peer
	// that makes up sources makes this side forget, and no more.
	PeersMost = 4096
	// AskAfter is after how many ticks without a sign of life the owner of an address is asked again for its queue
	// pair, if something is sent to it: it may have restarted. After AskAlways ticks it is asked despite such signs:
	// its number may have become another program's. After an attempt without a reply it is askSoon. At most AskMost are
	// asked at a time.
	AskAfter  = 10
	AskAlways = 60
	askSoon   = 2
	AskMost   = 64
)

// Table has the peers of a socket by source, and the addresses that lead to them.
type Table struct {
	peers  map[source]*Peer
	named  map[netip.AddrPort]*Name
	groups map[netip.Addr]*Peer
	To     *Name                  // the only peer, of a dialed socket; or nil
	asks   int                    // addresses that are asked again
	qkey   uint32                 // of the socket, and of peers whose address is not known
	public func(Address) net.Addr // an address as the program has it
}

// NewTable returns a table without peers. public returns an address as the program has it.
func NewTable(public func(Address) net.Addr) Table {
	return Table{peers: make(map[source]*Peer), named: make(map[netip.AddrPort]*Name),
		groups: make(map[netip.Addr]*Peer), qkey: rdmacm.UDPQKey, public: public}
}

// Len returns the number of peers.
func (t *Table) Len() int { return len(t.peers) }

// Came returns the address of a datagram, which states a port or 0. ours is false if a dialed socket has another peer.
// The caller closes the unused AHs without the lock.
func (t *Table) Came(a *Address, port uint16, now uint32) (from net.Addr, ours bool, unused []*ibv.AH) {
	p := t.peers[a.source()]
	if p == nil {
		p, unused = t.Keep(a)
	}
	ours = t.To == nil || t.To.peer == p
	if n := t.nameOf(p, port); n != nil {
		n.heard = now
		return n.UDP, ours, unused
	}
	return p.public, ours, unused
}

// Keep returns the peer of a source, which is kept from now on, and AHs that the caller closes without the lock.
func (t *Table) Keep(a *Address) (p *Peer, unused []*ibv.AH) {
	s := a.source()
	if p = t.peers[s]; p == nil {
		if len(t.peers) >= PeersMost {
			unused = t.Forget()
		}
		p = newPeer(*a, t.public(*a), t.qkey)
		t.peers[s] = p
	}
	return p, unused
}

// Find returns the name of an address, that of a group if it was joined, or nil if its owner has to be asked.
func (t *Table) Find(ap netip.AddrPort) *Name {
	n := t.named[ap]
	if g := t.groups[ap.Addr()]; g != nil {
		n = &g.Self
	}
	if n != nil && n.Lost {
		return nil
	}
	return n
}

// Found keeps the reply of an address: its owner has named the queue pair a and a Q_Key. now is the tick. What
// is sent to the address, also by a dialed socket, is sent there from now on.
func (t *Table) Found(ap netip.AddrPort, a *Address, qkey, now uint32) (n *Name, unused []*ibv.AH) {
	p, unused := t.Keep(a)
	if n = t.named[ap]; n == nil {
		if len(t.named) >= PeersMost {
			t.forgetNames()
		}
		n = t.To // it may have been forgotten before it was there
		if n == nil || n.AP != ap {
			n = &Name{AP: ap, UDP: net.UDPAddrFromAddrPort(ap)}
		}
		t.named[ap] = n
	}
	n.peer, n.QKey, n.asked, n.heard, n.Lost = p, qkey, now, now, false
	if p.name == nil {
		p.name = n
	}
	return n, unused
}

// Proven reports whether the owner of an address has named this queue pair a short time ago, so that it need not be
// asked.
func (t *Table) Proven(a Announced, now uint32) bool {
	n := t.named[a.AP]
	return n != nil && !n.Lost && n.peer.Addr.QPN == a.QPN && now-n.asked < AskAlways
}

// nameOf returns the address of a peer whose datagram states a port, if the owner of that address has named this peer.
// So a peer has the address only if both say so. Otherwise it returns nil.
func (t *Table) nameOf(p *Peer, port uint16) *Name {
	n := p.name
	if n == nil || n.AP.Port() != port {
		n = t.named[netip.AddrPortFrom(p.Addr.AP.Addr(), port)]
	}
	if n == nil || n.peer != p || n.Lost {
		return nil
	}
	p.name = n
	return n
}

// Forget removes some peers to which nothing is under way, and the addresses that lead to them.
func (t *Table) Forget() (unused []*ibv.AH) {
	n := PeersMost / 8
	for s, p := range t.peers {
		if p.busy > 0 || t.To != nil && p == t.To.peer {
			continue
		}
		if n--; n < 0 {
			break
		}
		p.gone = true
		delete(t.peers, s)
		if p.AH != nil {
			unused = append(unused, p.AH)
			p.AH = nil
		}
	}
	maps.DeleteFunc(t.named, func(_ netip.AddrPort, n *Name) bool { return n.peer.gone })
	return unused
}

// forgetNames removes some addresses.
func (t *Table) forgetNames() {
	left := PeersMost / 8
	maps.DeleteFunc(t.named, func(_ netip.AddrPort, n *Name) bool {
		if n == t.To || left == 0 {
			return false
		}
		left--
		if n.peer.name == n {
			n.peer.name = nil
		}
		return true
	})
}

// Current returns the peer that is kept for the queue pair of n, which may have been forgotten.
func (t *Table) Current(n *Name) *Peer {
	p := n.peer
	if !p.gone {
		return p
	}
	if again := t.peers[p.Addr.source()]; again != nil {
		return again
	}
	p.gone = false
	t.peers[p.Addr.source()] = p
	return p
}

// MustAsk reports whether the caller has to ask the owner of an address again, and calls Asked afterwards.
func (t *Table) MustAsk(n *Name, now uint32) bool {
	if now-n.heard < AskAfter && now-n.asked < AskAlways || n.asking || n.UDP == nil || t.asks == AskMost {
		return false
	}
	n.asking = true
	t.asks++
	return true
}

// Asked ends asking an address again. Its owner has replied if err is nil. If the peer's system says that it has none
// any more, the next datagram asks first: until then the queue pair's number may become another program's.
func (t *Table) Asked(n *Name, now uint32, err error) {
	n.asking = false
	t.asks--
	var reject *rdmacm.RejectError
	switch {
	case err == nil:
	case errors.As(err, &reject) && reject.Reason == rdmacm.RejectInvalidServiceID:
		n.Lost = true
	default:
		n.heard, n.asked = now-AskAfter+askSoon, now-AskAlways+askSoon
	}
}

// Joined reports whether the socket has joined a group.
func (t *Table) Joined(group netip.Addr) bool { return t.groups[group] != nil }

// Join adds a group.
func (t *Table) Join(group netip.Addr, a Address, qkey uint32) {
	t.groups[group] = newPeer(a, t.public(a), qkey)
}

// Leave removes a group, unless it is busy. It returns nil if the socket has not joined it.
func (t *Table) Leave(group netip.Addr) (p *Peer, busy bool) {
	p = t.groups[group]
	busy = p != nil && p.busy > 0
	if !busy {
		delete(t.groups, group)
	}
	return p, busy
}

// Groups returns the queue pairs of the groups.
func (t *Table) Groups() (list []*Address) {
	for _, p := range t.groups {
		list = append(list, &p.Addr)
	}
	return list
}

// Clear removes all peers, and returns their AHs.
func (t *Table) Clear() (ahs []*ibv.AH) {
	for _, peers := range []iter.Seq[*Peer]{maps.Values(t.peers), maps.Values(t.groups)} {
		for p := range peers {
			if p.AH != nil {
				ahs = append(ahs, p.AH)
				p.AH = nil
			}
		}
	}
	clear(t.peers)
	clear(t.named)
	clear(t.groups)
	return ahs
}
