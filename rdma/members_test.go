package rdma

import (
	"slices"
	"testing"
	"time"
)

// TestMembers counts a place that is only reserved, a socket, and connections. One of these was closed.
func TestMembers(t *testing.T) {
	m := members{conns: map[*link]struct{}{}}
	check := func(what string, places, conns, sockets int, lingering ...*link) {
		t.Helper()
		c, s, l := m.open()
		if m.places() != places || c != conns || s != sockets || !slices.Equal(l, lingering) {
			t.Errorf("%s: %d places, %d connections, %d sockets, %d lingering", what, m.places(), c, s, len(l))
		}
	}
	check("nothing", 0, 0, 0)
	m.reserve(1)
	check("reserved", 1, 1, 0)
	m.reserve(packetPlaces)
	m.sockets++
	check("a socket", 1+packetPlaces, 1, 1)
	a, b := fakeLink(time.Second), fakeLink(time.Second)
	for _, l := range []*link{a, b} {
		m.reserve(1)
		m.add(l)
	}
	check("two connections", 3+packetPlaces, 3, 1)
	a.end.Close()
	check("one is closed", 3+packetPlaces, 2, 1, a)
	if n := m.count(); n != 2 || len(m.append(nil)) != n {
		t.Errorf("%d connections, want 2", n)
	}
	m.remove(a)
	m.reserve(-1)
	check("one has ended", 1+packetPlaces, 1, 1)
	if l := m.append([]*link{a}); !slices.Equal(l, []*link{a, b}) {
		t.Errorf("%v, want %p and %p", l, a, b)
	}
	if m.isClosed() || m.close() || !m.isClosed() || !m.close() {
		t.Error("close does not report whether it was called before")
	}
}
