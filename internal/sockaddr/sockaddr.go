// Package sockaddr encodes and decodes struct sockaddr_storage.
package sockaddr

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// Size is that of struct sockaddr_storage.
const Size = 128

// Addr is a struct sockaddr_storage in memory order.
type Addr [Size]byte

// Address families, as Linux numbers them.
const (
	INET  = 2
	INET6 = 10
	IB    = 27
)

// Error is an address that cannot be encoded. Its fields are those of ibv.ArgError.
type Error struct{ Arg, Got, Want string }

func (e *Error) Error() string { return fmt.Sprintf("%s is %s; it must be %s", e.Arg, e.Got, e.Want) }

// New encodes an address. A mapped IPv4 address is one of IPv4, as everywhere in package net.
func New(ap netip.AddrPort) (a Addr, bad *Error) {
	ip := ap.Addr().Unmap()
	binary.BigEndian.PutUint16(a[2:], ap.Port())
	switch {
	case ip.Is4():
		a.setFamily(INET)
		b := ip.As4()
		copy(a[4:], b[:])
	case ip.Is6():
		a.setFamily(INET6)
		b := ip.As16()
		copy(a[8:], b[:])
		scope, bad := scopeOf(ip.Zone())
		if bad != nil {
			return a, bad
		}
		binary.NativeEndian.PutUint32(a[24:], scope)
	default:
		return a, &Error{Arg: "address", Got: ap.String(), Want: "an IPv4 or IPv6 address"}
	}
	return a, nil
}

// NoZone returns what is wrong with a link-local IPv6 address without a zone, nil for any other. The kernel has EINVAL
// for it, unless the interface is known otherwise.
func (a *Addr) NoZone() *Error {
	ip := a.AddrPort().Addr()
	if !ip.Is6() || !ip.IsLinkLocalUnicast() || ip.Zone() != "" {
		return nil
	}
	return &Error{Arg: "address", Got: ip.String() + ", of link-local scope and without a zone",
		Want: ip.String() + "%INTERFACE, with the network interface that leads to it"}
}

// Of copies a struct sockaddr of any length.
func Of(raw []byte) (a Addr) {
	copy(a[:], raw)
	return a
}

// Family returns the address family.
func (a *Addr) Family() uint16 { return binary.NativeEndian.Uint16(a[:]) }

func (a *Addr) setFamily(f uint16) { binary.NativeEndian.PutUint16(a[:], f) }

// Len returns the size of the struct of its family, 0 for an unknown one.
func (a *Addr) Len() uint32 {
	switch a.Family() {
	case INET:
		return 16
	case INET6:
		return 28
	case IB:
		return 48
	}
	return 0
}

func scopeOf(zone string) (uint32, *Error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, &Error{Arg: "zone", Got: strconv.Quote(zone), Want: "the name or number of a network interface"}
	}
	return uint32(i.Index), nil
}

func zoneOf(scope uint32) string {
	if i, err := net.InterfaceByIndex(int(scope)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(scope), 10)
}

// AddrPort returns the IP address and port; zero for another family.
func (a *Addr) AddrPort() netip.AddrPort {
	port := binary.BigEndian.Uint16(a[2:])
	switch a.Family() {
	case INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a[4:8])), port)
	case INET6:
		ip := netip.AddrFrom16([16]byte(a[8:24]))
		if scope := binary.NativeEndian.Uint32(a[24:]); scope != 0 {
			ip = ip.WithZone(zoneOf(scope))
		}
		return netip.AddrPortFrom(ip, port)
	}
	return netip.AddrPort{}
}

// Port returns the port; of an InfiniBand address it is that of the service ID.
func (a *Addr) Port() uint16 {
	switch a.Family() {
	case INET, INET6:
		return binary.BigEndian.Uint16(a[2:])
	case IB:
		return uint16(binary.BigEndian.Uint64(a[24:]))
	}
	return 0
}

// InfiniBand has the fields of a struct sockaddr_ib.
type InfiniBand struct {
	GID           [16]byte
	PKey          uint16
	FlowInfo      uint32
	ServiceID     uint64
	ServiceIDMask uint64
	ScopeID       uint64
}

// NewIB encodes an InfiniBand address.
func NewIB(b InfiniBand) (a Addr) {
	a.setFamily(IB)
	binary.BigEndian.PutUint16(a[2:], b.PKey)
	binary.BigEndian.PutUint32(a[4:], b.FlowInfo)
	copy(a[8:], b.GID[:])
	binary.BigEndian.PutUint64(a[24:], b.ServiceID)
	binary.BigEndian.PutUint64(a[32:], b.ServiceIDMask)
	binary.NativeEndian.PutUint64(a[40:], b.ScopeID)
	return a
}

// IB decodes an InfiniBand address.
func (a *Addr) IB() (b InfiniBand, ok bool) {
	if a.Family() != IB {
		return b, false
	}
	b.PKey = binary.BigEndian.Uint16(a[2:])
	b.FlowInfo = binary.BigEndian.Uint32(a[4:])
	copy(b.GID[:], a[8:])
	b.ServiceID = binary.BigEndian.Uint64(a[24:])
	b.ServiceIDMask = binary.BigEndian.Uint64(a[32:])
	b.ScopeID = binary.NativeEndian.Uint64(a[40:])
	return b, true
}
