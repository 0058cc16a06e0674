package rsocket

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind/librdmacm"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// Bind sets the local address. Port 0 is any free port. A loopback address is a wildcard for rdma_cm: the port is in
// use on all addresses. Accept closes connections to others than loopback addresses.
//
// C: rbind.
func (s *Socket) Bind(addr netip.AddrPort) error {
	return s.inUse(s.withAddr((*librdmacm.Sockets).Bind, addr), addr)
}

// explain adds to the reason why Connect failed that its address has no zone, since the kernel then takes any interface
// that has a route to link-local addresses, or why the device could not be opened.
func (s *Socket) explain(e *Error) error {
	if err := s.denied(e); err != error(e) {
		return err
	}
	if to := s.to.Load(); to != nil {
		if a, bad := newSockaddr(*to); bad == nil && a.NoZone() != nil {
			return fmt.Errorf("%w; %w", e, (*ibv.ArgError)(a.NoZone()))
		}
	}
	return explainDevice(e)
}

// explainDevice returns why the device of an address cannot be opened: librdmacm loses that errno, and has EPERM when
// it connects, and ENODEV when it binds.
func explainDevice(e *Error) error {
	if e.Errno == syscall.EPERM || e.Errno == syscall.ENODEV {
		if why := verbs.WhyNoDevice(); why != nil {
			return &ibv.OpError{Op: e.Op, Object: e.Object, Err: why}
		}
	}
	return e
}

// inUse returns EADDRINUSE for an EADDRNOTAVAIL of a port that is in use: the kernel has that errno if one of the two
// addresses is a wildcard (Linux, drivers/infiniband/core/cma.c, cma_check_port), and if no device has the address.
func (s *Socket) inUse(err error, addr netip.AddrPort) error {
	var e *Error
	if !errors.As(err, &e) || e.Errno != syscall.EADDRNOTAVAIL || addr.Port() == 0 {
		return err
	}
	free, bad := newSockaddr(netip.AddrPortFrom(addr.Addr(), 0))
	if bad != nil {
		return err
	}
	fd, bad := s.lib.Socket(int(s.domain), int(s.typ))
	if bad != nil {
		return err
	}
	if s.lib.Bind(fd, free) == nil {
		e.Errno = syscall.EADDRINUSE
	}
	_ = s.lib.Close(fd)
	return err
}

func (s *Socket) withAddr(call func(c *librdmacm.Sockets, fd int, a *sockaddr.Addr) error, addr netip.AddrPort) error {
	a, err := newSockaddr(addr)
	if err != nil {
		return err
	}
	if err := s.beginC(); err != nil {
		return err
	}
	defer s.life.Leave()
	runtime.LockOSThread() // for Refused
	defer runtime.UnlockOSThread()
	err = call(s.lib.Sockets, s.fd, a)
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	e.Object = addr.String()
	if why := a.NoZone(); why != nil && e.Errno == syscall.EINVAL {
		return (*ibv.ArgError)(why)
	}
	if s.typ == Stream && e.Errno == syscall.EACCES && !s.lib.Refused(s.fd) {
		return err // a reserved port
	}
	if err := s.denied(err); err != error(e) {
		return err
	}
	return explainDevice(e)
}

// LocalAddr returns the local address.
//
// C: rgetsockname.
func (s *Socket) LocalAddr() (netip.AddrPort, error) { return s.name((*librdmacm.Sockets).GetSockName) }

// RemoteAddr returns the peer's address.
//
// C: rgetpeername.
func (s *Socket) RemoteAddr() (netip.AddrPort, error) {
	return s.name((*librdmacm.Sockets).GetPeerName)
}

func (s *Socket) name(call func(c *librdmacm.Sockets, fd int) (*sockaddr.Addr, error)) (ap netip.AddrPort, err error) {
	err = s.with(func(fd int) error {
		a, err := call(s.lib.Sockets, fd)
		if err == nil {
			ap = a.AddrPort()
		}
		return err
	})
	return ap, err
}
