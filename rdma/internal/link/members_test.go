package link

import (
	"slices"
	"testing"
)

// TestMembers counts a place that is only reserved, a socket, and connections. One of these was closed.
func TestMembers(t *testing.T) {
	m := members{conns: map[*Link]struct{}{}}
	check := func(what string, places, conns, sockets int, lingering ...*Link) {
		t.Helper()
		c, s, l := m.open()
		if int(m.Places.Load()) != places || c != conns || s != sockets || !slices.Equal(l, lingering) {
			t.Errorf("%s: %d places, %d connections, %d sockets, %d lingering", what, m.Places.Load(), c, s, len(l))
		}
	}
	check("nothing", 0, 0, 0)
	m.Places.Add(1)
	check("reserved", 1, 1, 0)
	m.Places.Add(packetPlaces)
	m.sockets++
	check("a socket", 1+packetPlaces, 1, 1)
	a, b := new(Link), new(Link)
	for _, l := range []*Link{a, b} {
		m.Places.Add(1)
		m.add(l)
	}
	check("two connections", 3+packetPlaces, 3, 1)
	a.End.Close()
	check("one is closed", 3+packetPlaces, 2, 1, a)
	if n := m.Count(); n != 2 || len(m.Append(nil)) != n {
		t.Errorf("%d connections, want 2", n)
	}
	m.remove(a)
	m.Places.Add(-1)
	check("one has ended", 1+packetPlaces, 1, 1)
	if l := m.Append([]*Link{a}); !slices.Equal(l, []*Link{a, b}) {
		t.Errorf("%v, want %p and %p", l, a, b)
	}
}
