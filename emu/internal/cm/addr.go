//go:build linux

package cm

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
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

// place is where an address lives on the fabric.
type place struct {
	port  *hca.Port
	index int
	gid   [16]byte
}

// scan calls f for the entries of a port's GID table until it returns false.
func scan(p *hca.Port, f func(i int, g *config.GID) (stop bool)) {
	for i := range p.Config.GIDTableLen {
		if g := p.GID(i); g != nil && !g.GID.IsZero() && f(i, g) {
			return
		}
	}
}

// entry returns the best GID of a port for an address: the address itself, else one of its family, RoCE v2 before
// others.
func entry(p *hca.Port, ip netip.Addr) (pl place, exact bool) {
	pl = place{port: p}
	best := 0
	scan(p, func(i int, g *config.GID) bool {
		score, gip := 1, g.GID.IP()
		if gip.Is4() == ip.Unmap().Is4() {
			score += 2
		}
		if g.Type == config.GIDTypeRoCEv2 {
			score++
		}
		if same := gip == ip.Unmap().WithZone(""); same {
			score, exact = score+8, true
		}
		if score > best {
			best, pl.index, pl.gid = score, i, g.GID
		}
		return p.Config.LinkLayer == config.InfiniBand // whose traffic goes by GID 0
	})
	return pl, exact
}

// first returns the port that serves addresses of no particular port: the first active one, else the first.
func (s *Server) first() *hca.Port {
	var fallback *hca.Port
	for _, d := range s.f.Devices {
		if d.Gone {
			continue
		}
		for _, p := range d.Ports {
			if p.Active {
				return p
			}
			if fallback == nil {
				fallback = p
			}
		}
	}
	return fallback
}

// locate finds the place of a local address: the port whose GID it is; any other address of the machine is the first
// port's.
func (s *Server) locate(ip netip.Addr) (place, unix.Errno) {
	for _, d := range s.f.Devices {
		if d.Gone {
			continue
		}
		for _, p := range d.Ports {
			if pl, exact := entry(p, ip); exact {
				return pl, 0
			}
		}
	}
	if !ip.IsLoopback() && !s.local(ip) {
		return place{}, unix.EADDRNOTAVAIL
	}
	return s.standard(ip)
}

// standard returns the place of an address on the first port.
func (s *Server) standard(ip netip.Addr) (place, unix.Errno) {
	p := s.first()
	if p == nil {
		return place{}, unix.ENODEV
	}
	pl, _ := entry(p, ip)
	return pl, 0
}

// hostAddr reports whether an address is one of this machine's interfaces.
func hostAddr(ip netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if got, ok := netip.AddrFromSlice(n.IP); ok && got.Unmap() == ip.Unmap().WithZone("") {
				return true
			}
		}
	}
	return false
}

// route asks the kernel whether it has a route to an address that is not local.
func route(ip netip.Addr) unix.Errno {
	family := unix.AF_INET6
	if ip.Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return unix.ENETUNREACH
	}
	defer unix.Close(fd)
	return reach(fd, ip)
}

// reach looks for a route by connecting a UDP socket, which sends nothing.
func reach(fd int, ip netip.Addr) unix.Errno {
	sa := unix.Sockaddr(&unix.SockaddrInet6{Port: 9, Addr: ip.As16()})
	if ip.Is4() {
		sa = &unix.SockaddrInet4{Port: 9, Addr: ip.As4()}
	}
	switch e, ok := unix.Connect(fd, sa).(unix.Errno); {
	case ok && e == unix.EBADF: // no socket of the family
		return unix.ENETUNREACH
	case ok:
		return e
	}
	return 0
}

// Network makes the machine's addresses and routes those of another network namespace than ours: addrs lists the
// addresses, and udp are sockets there, for IPv4 and, unless -1, IPv6.
func (s *Server) Network(addrs func() ([]netip.Addr, error), udp [2]int) {
	s.local = func(ip netip.Addr) bool {
		all, err := addrs()
		return err == nil && slices.Contains(all, ip.Unmap().WithZone(""))
	}
	s.routed = func(ip netip.Addr) unix.Errno {
		if ip.Is4() {
			return reach(udp[0], ip)
		}
		return reach(udp[1], ip)
	}
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
		pl, e := s.locate(a.ip)
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
	var e unix.Errno
	if ip.IsMulticast() {
		// A group is everywhere: the source alone counts.
	} else if far, e = s.locate(ip); e == unix.EADDRNOTAVAIL {
		if e = s.routed(ip); e != 0 {
			return e
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
		if pl.port == nil {
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
