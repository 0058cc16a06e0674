//go:build linux

package cm

import (
	"encoding/binary"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
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

func (s *Server) bindIP(_ *request, i *id, cmd *bindIP) unix.Errno {
	return s.bindID(i, parse(cmd.Addr[:]))
}

func (s *Server) bind(_ *request, i *id, cmd *bind) unix.Errno {
	a := parse(cmd.Addr[:])
	if cmd.Reserved != 0 || int(cmd.Size) != a.size() {
		return unix.EINVAL
	}
	if a.family == afIB && s.IB && i.state == stIdle && uapi.Decode[sockaddrIB](cmd.Addr[:]).Addr == [16]byte{} {
		i.src.family, i.dst.family, i.state = afIB, afIB, stAddrBound
		return 0
	}
	return s.bindID(i, a)
}

// bindID gives an id its source address, a port number, and its device where the address tells it.
func (s *Server) bindID(i *id, a address) unix.Errno {
	switch {
	case a.family == afIB:
		return unix.EAFNOSUPPORT
	case a.size() == 0 || i.state != stIdle || a.dangling():
		return unix.EINVAL
	}
	old := i.src
	i.src = a
	if !a.any() {
		pl, e := s.source(&a)
		if e != 0 {
			i.src = old
			return e
		}
		i.attach(pl)
	}
	if !i.afonlySet {
		i.afonly = a.family == unix.AF_INET
	}
	i.dst.family = a.family
	if e := s.takePort(i); e != 0 {
		i.src, i.port = old, nil
		return e
	}
	i.state = stAddrBound
	return 0
}

func (s *Server) resolveIP(_ *request, i *id, cmd *resolveIP) unix.Errno {
	return s.resolve(i, parse(cmd.Src[:]), parse(cmd.Dst[:]), cmd.Timeout)
}

func (s *Server) resolveAddr(_ *request, i *id, cmd *resolveAddr) unix.Errno {
	src, dst := parse(cmd.Src[:]), parse(cmd.Dst[:])
	if cmd.SrcSize == 0 {
		src = address{}
	}
	if cmd.Reserved != 0 || int(cmd.SrcSize) != src.size() || int(cmd.DstSize) != dst.size() {
		return unix.EINVAL
	}
	return s.resolve(i, src, dst, cmd.Timeout)
}

// resolve finds the way to an address, and gives the id its source address and device if it has none.
func (s *Server) resolve(i *id, src, dst address, timeout uint32) unix.Errno {
	if dst.size() == 0 {
		return unix.EINVAL
	}
	if i.state == stIdle {
		if src.family == 0 {
			src = address{family: dst.family, ip: unspecified(dst.family), scope: dst.scope}
		}
		if e := s.bindID(i, src); e != 0 {
			return e
		}
	}
	switch {
	case i.src.family != dst.family || i.state != stAddrBound || dst.dangling():
		return unix.EINVAL
	case dst.family == afIB:
		return unix.EAFNOSUPPORT
	}
	zone, vlan, e := s.zone(&dst)
	if e != 0 {
		return unix.ENETUNREACH
	}
	i.dst = dst
	ip := dst.ip
	if dst.any() {
		if i.port == nil {
			pl, e := s.standard(loopback(dst.family))
			if e != 0 {
				return e
			}
			i.attach(pl)
			i.src.ip = loopback(dst.family)
		}
		// Loopback stays on the device that the id is on.
		i.remote = i.local
		return s.resolved(i)
	}
	var far place
	if ip.IsMulticast() {
		// A group is everywhere: the source alone counts.
	} else if far, e = s.locate(ip, vlan); e == unix.EADDRNOTAVAIL {
		if zone == nil {
			if e = s.routed(ip); e != 0 {
				return e
			}
		}
		// The machine has a route, but nobody on the emulated wire answers to ARP.
		i.state = stAddrQuery
		i.after(time.Duration(timeout)*time.Millisecond, func() {
			if i.state == stAddrQuery {
				i.state = stAddrBound
				s.emit(i, evAddrError, -int32(unix.ETIMEDOUT), nil, ece{})
			}
		})
		return 0
	} else if e != 0 {
		return e
	}
	if i.port == nil {
		pl := far
		switch {
		case zone != nil && zone != far.port:
			pl, _ = entry(zone, ip, vlan)
			ip = config.Addr(pl.gid).IP()
		case pl.port == nil:
			if pl, e = s.standard(ip); e != 0 {
				return e
			}
			ip = config.Addr(pl.gid).IP()
			if ip.Is4() != (dst.family == unix.AF_INET) {
				ip = loopback(dst.family)
			}
		}
		i.attach(pl)
		i.src.ip, i.src.scope = ip, dst.scope
	}
	if i.remote = far; far.port == nil {
		i.remote = place{gid: dst.ip.As16()}
	}
	return s.resolved(i)
}

func (s *Server) resolved(i *id) unix.Errno {
	i.state = stAddrResolved
	s.emit(i, evAddrResolved, 0, nil, ece{})
	return 0
}
