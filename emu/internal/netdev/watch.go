//go:build linux

package netdev

import (
	"cmp"
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Change is what became of an interface, or of an address of one.
type Change struct {
	Name  string
	Addr  netip.Addr // if valid: the address that came, or went
	There bool       // the interface, or the address, is there
	// Of an interface that is there. Its carrier does not count: that is the port's.
	Up  bool
	MTU int
}

// place is an address of an interface.
type place struct {
	name string
	addr netip.Addr
}

// Follow has Changes read from a socket that hears of the namespace's interfaces and addresses, and does not block.
// What there was before is not told.
func (l *Links) Follow(c syscall.RawConn) {
	l.changes = c
	l.hear(func(uint16, []byte) {})
	l.addrs = l.places()
}

// Changes returns what happened since the last call: to the interfaces, in order, then to their addresses. An address
// that came and went meanwhile is not in the list. One caller at a time.
func (l *Links) Changes() (list []Change) {
	if l.changes == nil {
		return nil
	}
	link := func(typ uint16, body []byte) {
		if c := l.link(typ, body); c.Name != "" {
			list = append(list, c)
		}
	}
	addrs := false
	lost := l.hear(func(typ uint16, body []byte) {
		addrs = addrs || typ == unix.RTM_NEWADDR || typ == unix.RTM_DELADDR
		link(typ, body)
	})
	if lost { // how all are now, instead
		heard := len(list)
		_ = l.exchange(newMessage(unix.RTM_GETLINK, unix.NLM_F_DUMP, info(0, 0, 0)), link)
		for _, name := range slices.Sorted(maps.Keys(l.index)) {
			is := func(c Change) bool { return c.Name == name }
			if name != "lo" && !slices.ContainsFunc(list[heard:], is) {
				list = append(list, Change{Name: name})
			}
		}
	}
	if !addrs && !lost {
		return list
	}
	now := l.places()
	all := maps.Clone(now)
	maps.Copy(all, l.addrs)
	for _, p := range slices.SortedFunc(maps.Keys(all), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.name, b.name), a.addr.Compare(b.addr))
	}) {
		if now[p] != l.addrs[p] {
			list = append(list, Change{Name: p.name, Addr: p.addr, There: now[p]})
		}
	}
	l.addrs = now
	return list
}

// hear reads what the socket has, and reports whether it lost something.
func (l *Links) hear(got func(typ uint16, body []byte)) (lost bool) {
	_ = l.changes.Control(func(fd uintptr) {
		var buf [16 << 10]byte
		for {
			switch n, _, err := unix.Recvfrom(int(fd), buf[:], 0); err {
			case nil:
				Split(buf[:n], func(header, body []byte) { got(binary.NativeEndian.Uint16(header[4:]), body) })
			case unix.EINTR:
			case unix.ENOBUFS:
				lost = true
			default:
				return
			}
		}
	})
	return lost
}

// link reads a message about an interface; the name is "" if it is about something else.
func (l *Links) link(typ uint16, body []byte) (c Change) {
	if typ != unix.RTM_NEWLINK && typ != unix.RTM_DELLINK || len(body) < unix.SizeofIfInfomsg ||
		body[0] != unix.AF_UNSPEC { // a bridge's own messages
		return c
	}
	c = Change{Name: l.name(int(binary.NativeEndian.Uint32(body[4:]))), There: typ == unix.RTM_NEWLINK,
		Up: binary.NativeEndian.Uint32(body[8:])&unix.IFF_UP != 0}
	Attrs(body[unix.SizeofIfInfomsg:], func(typ uint16, value []byte) {
		if typ == unix.IFLA_MTU && len(value) == 4 {
			c.MTU = int(binary.NativeEndian.Uint32(value))
		}
	})
	return c
}

// places returns the addresses of the interfaces.
func (l *Links) places() map[place]bool {
	all := map[place]bool{}
	_ = l.eachAddr(func(index int, ip netip.Addr) {
		if name := l.name(index); name != "" {
			all[place{name, ip}] = true
		}
	})
	return all
}

// name returns the name that an interface was made with, or "" if it is none of ours.
func (l *Links) name(index int) string {
	for name, i := range l.index {
		if i == index && i != loIndex {
			return name
		}
	}
	return ""
}
