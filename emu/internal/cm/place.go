//go:build linux

package cm

import (
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

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

const anyVLAN = -1

// entry returns the best GID of a port and a VLAN for an address: the address itself, else one of its family, RoCE v2
// before others.
func entry(p *hca.Port, ip netip.Addr, vlan int) (pl place, exact bool) {
	pl = place{port: p}
	best := 0
	scan(p, func(i int, g *config.GID) bool {
		if vlan != anyVLAN && g.VLAN != vlan {
			return false
		}
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
	for _, p := range s.f.Ports {
		switch {
		case p.Device.Gone:
		case p.Active:
			return p
		case fallback == nil:
			fallback = p
		}
	}
	return fallback
}

// zone returns the port and the VLAN of the interface that a link-local address names. The port is nil if the address
// names none, or if the devices have no interfaces.
func (s *Server) zone(a *address) (*hca.Port, int, unix.Errno) {
	if s.f.Config.Host || a.ip.Is4() || !a.ip.IsLinkLocalUnicast() {
		return nil, anyVLAN, 0
	}
	for _, n := range s.f.Config.Netdevs() {
		if d := s.f.Devices[n.Device]; n.IfIndex == int(a.scope) && !d.Gone {
			return d.Ports[n.Port-1], n.VLAN, 0
		}
	}
	return nil, anyVLAN, unix.ENODEV
}

// source returns the place of an address that an id is bound to.
func (s *Server) source(a *address) (place, unix.Errno) {
	p, vlan, e := s.zone(a)
	switch {
	case e != 0:
		return place{}, e
	case p == nil:
		return s.locate(a.ip, anyVLAN)
	}
	pl, ok := entry(p, a.ip, vlan)
	if !ok {
		return place{}, unix.ENODEV
	}
	return pl, 0
}

// locate finds the place of an address: the port whose GID it is, of a VLAN if one is given. Any other address of the
// machine is the first port's.
func (s *Server) locate(ip netip.Addr, vlan int) (place, unix.Errno) {
	for _, p := range s.f.Ports {
		if pl, exact := entry(p, ip, vlan); exact && !p.Device.Gone {
			return pl, 0
		}
	}
	if vlan != anyVLAN || !ip.IsLoopback() && !s.local(ip) {
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
	pl, _ := entry(p, ip, anyVLAN)
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
