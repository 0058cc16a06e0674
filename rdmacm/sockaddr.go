package rdmacm

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// sockaddr is a struct sockaddr_storage in memory order.
type sockaddr [abi.SockaddrStorage]byte

// Family is an address family, as Linux numbers them.
type Family uint16

// Address families.
const (
	FamilyINET  Family = 2  // IPv4
	FamilyINET6 Family = 10 // IPv6
	FamilyIB    Family = 27 // InfiniBand: GIDs and service IDs
)

// String names the family.
func (f Family) String() string {
	switch f {
	case 0:
		return "no family"
	case FamilyINET:
		return "IPv4"
	case FamilyINET6:
		return "IPv6"
	case FamilyIB:
		return "InfiniBand"
	}
	return "Family(" + strconv.Itoa(int(f)) + ")"
}

func (a *sockaddr) family() Family { return Family(binary.LittleEndian.Uint16(a[:])) }

// len is the size of the address of its family.
func (a *sockaddr) len() uint32 {
	switch a.family() {
	case FamilyINET:
		return 16
	case FamilyINET6:
		return 28
	case FamilyIB:
		return 48
	}
	return 0
}

// newSockaddr encodes an address. A mapped IPv4 address is one of IPv4, as
// everywhere in package net.
func newSockaddr(ap netip.AddrPort) (a sockaddr, err error) {
	ip := ap.Addr().Unmap()
	binary.BigEndian.PutUint16(a[2:], ap.Port())
	switch {
	case ip.Is4():
		binary.LittleEndian.PutUint16(a[:], uint16(FamilyINET))
		b := ip.As4()
		copy(a[4:], b[:])
	case ip.Is6():
		binary.LittleEndian.PutUint16(a[:], uint16(FamilyINET6))
		b := ip.As16()
		copy(a[8:], b[:])
		scope, err := scopeOf(ip.Zone())
		if err != nil {
			return a, err
		}
		binary.LittleEndian.PutUint32(a[24:], scope)
	default:
		return a, &ibv.ArgError{Arg: "address", Got: ap.String(), Want: "an IPv4 or IPv6 address"}
	}
	return a, nil
}

func scopeOf(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, &ibv.ArgError{Arg: "zone", Got: strconv.Quote(zone), Want: "the name or number of a network interface"}
	}
	return uint32(i.Index), nil
}

// addrPort is the IP address and port; zero for another family.
func (a *sockaddr) addrPort() netip.AddrPort {
	port := binary.BigEndian.Uint16(a[2:])
	switch a.family() {
	case FamilyINET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a[4:8])), port)
	case FamilyINET6:
		ip := netip.AddrFrom16([16]byte(a[8:24]))
		if scope := binary.LittleEndian.Uint32(a[24:]); scope != 0 {
			ip = ip.WithZone(zoneOf(scope))
		}
		return netip.AddrPortFrom(ip, port)
	}
	return netip.AddrPort{}
}

func zoneOf(scope uint32) string {
	if i, err := net.InterfaceByIndex(int(scope)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(scope), 10)
}

// addrPortOf reads a struct sockaddr of any length.
func addrPortOf(raw []byte) netip.AddrPort {
	var a sockaddr
	copy(a[:], raw)
	return a.addrPort()
}

// port is in host order; of an InfiniBand address it is that of the service ID.
func (a *sockaddr) port() uint16 {
	switch a.family() {
	case FamilyINET, FamilyINET6:
		return binary.BigEndian.Uint16(a[2:])
	case FamilyIB:
		return uint16(binary.BigEndian.Uint64(a[24:]))
	}
	return 0
}

// IBAddr is an InfiniBand address, for the port space IB and for hosts without
// IP over InfiniBand.
//
// C: struct sockaddr_ib.
type IBAddr struct {
	GID           ibv.GID
	PKey          uint16
	FlowInfo      uint32
	ServiceID     uint64
	ServiceIDMask uint64
	ScopeID       uint64
}

func (b *IBAddr) sockaddr() (a sockaddr) {
	binary.LittleEndian.PutUint16(a[:], uint16(FamilyIB))
	binary.BigEndian.PutUint16(a[2:], b.PKey)
	binary.BigEndian.PutUint32(a[4:], b.FlowInfo)
	copy(a[8:], b.GID[:])
	binary.BigEndian.PutUint64(a[24:], b.ServiceID)
	binary.BigEndian.PutUint64(a[32:], b.ServiceIDMask)
	binary.LittleEndian.PutUint64(a[40:], b.ScopeID)
	return a
}

// ibAddr reads an InfiniBand address.
func (a *sockaddr) ibAddr() (b IBAddr, ok bool) {
	if a.family() != FamilyIB {
		return b, false
	}
	b.PKey = binary.BigEndian.Uint16(a[2:])
	b.FlowInfo = binary.BigEndian.Uint32(a[4:])
	copy(b.GID[:], a[8:])
	b.ServiceID = binary.BigEndian.Uint64(a[24:])
	b.ServiceIDMask = binary.BigEndian.Uint64(a[32:])
	b.ScopeID = binary.LittleEndian.Uint64(a[40:])
	return b, true
}
