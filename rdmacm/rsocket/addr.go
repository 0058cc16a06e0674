package rsocket

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"

	"github.com/pureverbs/pureverbs/ibv"
)

// sockaddr is a struct sockaddr_storage in memory order, with its length.
type sockaddr struct {
	raw [128]byte
	len uint32
}

func newSockaddr(ap netip.AddrPort) (*sockaddr, error) {
	a := &sockaddr{}
	ip := ap.Addr().Unmap()
	binary.BigEndian.PutUint16(a.raw[2:], ap.Port())
	switch {
	case ip.Is4():
		binary.NativeEndian.PutUint16(a.raw[:], uint16(DomainINET))
		b := ip.As4()
		copy(a.raw[4:], b[:])
		a.len = 16
	case ip.Is6():
		binary.NativeEndian.PutUint16(a.raw[:], uint16(DomainINET6))
		b := ip.As16()
		copy(a.raw[8:], b[:])
		if z := ip.Zone(); z != "" {
			n, err := strconv.ParseUint(z, 10, 32)
			if err != nil {
				i, err := net.InterfaceByName(z)
				if err != nil {
					return nil, &ibv.ArgError{Arg: "zone", Got: strconv.Quote(z), Want: "the name or number of a network interface"}
				}
				n = uint64(i.Index)
			}
			binary.NativeEndian.PutUint32(a.raw[24:], uint32(n))
		}
		a.len = 28
	default:
		return nil, &ibv.ArgError{Arg: "address", Got: ap.String(), Want: "an IPv4 or IPv6 address"}
	}
	return a, nil
}

// addrPort is the address; zero for one of another family.
func (a *sockaddr) addrPort() netip.AddrPort {
	port := binary.BigEndian.Uint16(a.raw[2:])
	switch Domain(binary.NativeEndian.Uint16(a.raw[:])) {
	case DomainINET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a.raw[4:8])), port)
	case DomainINET6:
		ip := netip.AddrFrom16([16]byte(a.raw[8:24]))
		if scope := binary.NativeEndian.Uint32(a.raw[24:]); scope != 0 {
			zone := strconv.FormatUint(uint64(scope), 10)
			if i, err := net.InterfaceByIndex(int(scope)); err == nil {
				zone = i.Name
			}
			ip = ip.WithZone(zone)
		}
		return netip.AddrPortFrom(ip, port)
	}
	return netip.AddrPort{}
}
