package link

import (
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/rdma/internal/datagram"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
)

// packetPlaces is how many connections have as many completions as a socket for datagrams.
const packetPlaces = (datagram.Recvs + datagram.Sends) / sendq.Depth

// members are the users of a shard: connections and sockets for datagrams. It is safe for concurrent use.
type members struct {
	mu      sync.Mutex
	conns   map[*Link]struct{}
	sockets int

	Places atomic.Int32 // that are reserved for connections; a socket has packetPlaces
	closed atomic.Bool  // nobody is let in any more
}

// add makes l a connection, for which a place was reserved.
func (m *members) add(l *Link) {
	m.mu.Lock()
	m.conns[l] = struct{}{}
	m.mu.Unlock()
}

// remove undoes add, and returns the place.
func (m *members) remove(l *Link) {
	m.mu.Lock()
	delete(m.conns, l)
	m.Places.Add(-1)
	m.mu.Unlock()
}

// Count is how many connections there are.
func (m *members) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.conns)
}

// Append appends the connections.
func (m *members) Append(list []*Link) []*Link {
	m.mu.Lock()
	defer m.mu.Unlock()
	for l := range m.conns {
		list = append(list, l)
	}
	return list
}

// open returns how many connections and sockets the program has not closed, reserved places included, and the
// connections that were closed and have not ended.
func (m *members) open() (conns, sockets int, lingering []*Link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for l := range m.conns {
		if l.End.Closed() {
			lingering = append(lingering, l)
		}
	}
	return int(m.Places.Load()) - packetPlaces*m.sockets - len(lingering), m.sockets, lingering
}
