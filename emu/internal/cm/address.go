//go:build linux

package cm

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

const afIB = 27

// address is a sockaddr_in or sockaddr_in6.
type address struct {
	family      uint16
	port        uint16
	ip          netip.Addr
	flow, scope uint32
}

// parse reads a sockaddr. The families that it does not know keep their number alone.
func parse(b []byte) (a address) {
	a.family = binary.NativeEndian.Uint16(b)
	switch a.family {
	case unix.AF_INET:
		a.port = binary.BigEndian.Uint16(b[2:])
		a.ip = netip.AddrFrom4([4]byte(b[4:8]))
	case unix.AF_INET6:
		a.port = binary.BigEndian.Uint16(b[2:])
		a.flow = binary.BigEndian.Uint32(b[4:])
		a.ip = netip.AddrFrom16([16]byte(b[8:24]))
		a.scope = binary.NativeEndian.Uint32(b[24:])
	}
	return a
}

// size returns the sockaddr's length, or 0 for a family that the kernel does not know.
func (a *address) size() int {
	switch a.family {
	case unix.AF_INET:
		return 16
	case unix.AF_INET6:
		return 28
	case afIB:
		return 48
	}
	return 0
}

// write puts the sockaddr into the head of b.
func (a *address) write(b []byte) {
	binary.NativeEndian.PutUint16(b, a.family)
	switch a.family {
	case unix.AF_INET:
		binary.BigEndian.PutUint16(b[2:], a.port)
		copy(b[4:8], a.ip.AsSlice())
	case unix.AF_INET6:
		binary.BigEndian.PutUint16(b[2:], a.port)
		binary.BigEndian.PutUint32(b[4:], a.flow)
		copy(b[8:24], a.ip.AsSlice())
		binary.NativeEndian.PutUint32(b[24:], a.scope)
	}
}

func unspecified(family uint16) netip.Addr {
	if family == unix.AF_INET {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func loopback(family uint16) netip.Addr {
	if family == unix.AF_INET {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

// zero reports whether the kernel treats the address as none: 0.0.0.0/8, ::.
func (a *address) zero() bool {
	return !a.ip.IsValid() || a.ip == netip.IPv6Unspecified() || a.ip.Is4() && a.ip.As4()[0] == 0
}

// any reports whether the address is zero or loopback: the kernel gives both to every device.
func (a *address) any() bool {
	return a.zero() || a.ip.Is4() && a.ip.IsLoopback() || a.ip == netip.IPv6Loopback()
}

// same compares without the port, as the kernel does.
func (a *address) same(b *address) bool {
	return a.family == b.family && a.ip == b.ip && (!a.ip.IsLinkLocalUnicast() || a.ip.Is4() || a.scope == b.scope)
}

// dangling is a link-local address without an interface.
func (a *address) dangling() bool {
	return a.family == unix.AF_INET6 && a.ip.IsLinkLocalUnicast() && a.scope == 0
}
