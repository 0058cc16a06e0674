//go:build linux

package cm

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

func (s *Server) bindIP(_ *request, i *id, cmd *bindIP) unix.Errno {
	return s.bindID(i, parse(cmd.Addr[:]))
}

func (s *Server) bind(_ *request, i *id, cmd *bind) unix.Errno {
	a := parse(cmd.Addr[:])
	if cmd.Reserved != 0 || int(cmd.Size) != a.size() {
		return unix.EINVAL
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
	if i.src.family != dst.family || i.state != stAddrBound || dst.dangling() {
		return unix.EINVAL
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
