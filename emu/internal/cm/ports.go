//go:build linux

package cm

import (
	"math/rand/v2"
	"slices"

	"golang.org/x/sys/unix"
)

// portKey is a port number of a port space.
type portKey struct{ ps, port uint16 }

// The numbers that the kernel picks of, as ip_local_port_range is by default.
const (
	ephemeralLow  = 32768
	ephemeralHigh = 60999
)

// takePort binds an id to the port of its source address, or to a free one if that is 0.
func (s *Server) takePort(i *id) unix.Errno {
	if i.src.port != 0 {
		k := portKey{i.ps, i.src.port}
		if e := s.checkPort(k, i, i.reuse); e != 0 {
			return e
		}
		s.own(i, k)
		return 0
	}
	n := uint32(ephemeralHigh - ephemeralLow + 1)
	for at, left := rand.Uint32N(n), n; left > 0; at, left = (at+1)%n, left-1 {
		k := portKey{i.ps, uint16(ephemeralLow + at)}
		if k.port != s.last && s.unique(k, i) {
			s.last = k.port
			s.own(i, k)
			return 0
		}
	}
	return unix.EADDRNOTAVAIL
}

// Listeners is the ports on which somebody listens, lock held.
func (s *Server) Listeners() []uint16 {
	ports := []uint16{}
	for k, ids := range s.ports {
		if slices.ContainsFunc(ids, func(i *id) bool { return i.state == stListen }) {
			ports = append(ports, k.port)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

func (s *Server) own(i *id, k portKey) {
	s.ports[k] = append(s.ports[k], i)
	i.src.port, i.owned = k.port, true
}

func (s *Server) disown(i *id) {
	if !i.owned {
		return
	}
	i.owned = false
	k := portKey{i.ps, i.src.port}
	s.ports[k] = slices.DeleteFunc(s.ports[k], func(o *id) bool { return o == i })
	if len(s.ports[k]) == 0 {
		delete(s.ports, k)
	}
}

// checkPort reports whether an id may share a given port with those that have it.
func (s *Server) checkPort(k portKey, i *id, reuse bool) unix.Errno {
	for _, o := range s.ports[k] {
		switch {
		case o == i, o.state != stListen && reuse && o.reuse, i.afonly && o.afonly && i.src.family != o.src.family:
		case i.src.any() || o.src.any():
			return unix.EADDRNOTAVAIL
		case i.src.same(&o.src):
			return unix.EADDRINUSE
		}
	}
	return 0
}

// unique reports whether a port may be handed out that others have too: what they differ in must be known of both.
func (s *Server) unique(k portKey, i *id) bool {
	for _, o := range s.ports[k] {
		switch {
		case i.dst.port != 0 && o.dst.port != 0 && i.dst.port != o.dst.port:
		case !i.src.any() && !o.src.any() && !i.src.same(&o.src):
		case !i.dst.any() && !o.dst.any() && !i.dst.same(&o.dst):
		default:
			return false
		}
	}
	return true
}

// listener returns the id that listens for a request of an active id. some reports whether anybody listens to the
// service, if not at that address.
func (s *Server) listener(i *id) (l *id, some bool) {
	for _, o := range s.ports[portKey{i.ps, i.dst.port}] {
		if o.state != stListen || o.port != nil && (i.remote.port == nil || o.port.Device != i.remote.port.Device) {
			continue
		}
		some = true
		if o.src.any() && !o.afonly || o.src.family == i.dst.family && (o.src.any() || o.src.ip == i.dst.ip) {
			return o, true
		}
	}
	return nil, some
}
