package rdmacm

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// Bind binds the ID to a local address and port (0 lets the kernel choose one) and, unless the
// address is unspecified, to a device. A loopback address also counts as unspecified: an ID that is bound to 127.0.0.1
// or ::1 and listens gets requests to every address.
//
// C: rdma_bind_addr(3).
func (id *ID) Bind(addr netip.AddrPort) error {
	return id.do("bind", func() error {
		a, err := newSockaddr(addr)
		if err != nil {
			return err
		}
		return id.bind(&a, addr.String())
	})
}

// BindIB is Bind for an InfiniBand address.
//
// Experimental: no device has run this. See docs/stability.md.
func (id *ID) BindIB(addr IBAddr) error {
	return id.do("bind", func() error {
		a := addr.sockaddr()
		return id.bind(&a, addr.GID.String())
	})
}

func (id *ID) bind(a *sockaddr.Addr, text string) error {
	if err := id.lib.BindAddr(id.handle, a); err != nil {
		hint, err := id.explainAddr(a, err)
		return &ibv.OpError{Op: "bind", Object: id.name, Err: err, Detail: text + hint}
	}
	id.order.advance(stageBound)
	return nil
}

// explainAddr returns the meaning of the errno for a local address. EADDRNOTAVAIL has two: no device has the address,
// or the port is in use and one of the two addresses is a wildcard (Linux, drivers/infiniband/core/cma.c,
// cma_check_port).
//
// Preconditions: the ID is entered.
func (id *ID) explainAddr(a *sockaddr.Addr, err error) (hint string, cause error) {
	const inUse = ": the port is in use in this port space"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return inUse, err
	case errors.Is(err, syscall.EADDRNOTAVAIL) && id.binds(a):
		return inUse, fmt.Errorf("%w (one of the two addresses is a wildcard; the kernel's errno: %w)",
			syscall.EADDRINUSE, err)
	case errors.Is(err, syscall.ENODEV) && id.text() != noAddress: // the kernel has bound it
		if why := verbs.WhyNoDevice(); why != nil {
			return "", fmt.Errorf("%w (rdma_cm: %w)", why, err)
		}
		return "", err
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EADDRNOTAVAIL):
		return ": no RDMA device of this host has the address", err
	case err == syscall.EACCES:
		return ": a port below net.ipv4.ip_unprivileged_port_start requires CAP_NET_BIND_SERVICE", err
	}
	return "", noZone(a, err)
}

// noZone returns the cause of an EINVAL if that is an address without a zone, otherwise err.
func noZone(a *sockaddr.Addr, err error) error {
	if why := a.NoZone(); why != nil && errors.Is(err, syscall.EINVAL) {
		return (*ibv.ArgError)(why)
	}
	return err
}

// withoutZone adds to the reason why a destination was not resolved that it has no zone. The kernel then takes any
// interface that has a route to link-local addresses.
func withoutZone(to netip.AddrPort, err error) error {
	if a, bad := newSockaddr(to); bad == nil {
		if why := a.NoZone(); why != nil {
			return fmt.Errorf("%w; %w", err, (*ibv.ArgError)(why))
		}
	}
	return err
}

// binds reports whether another ID can be bound to any port of an address.
func (id *ID) binds(a *sockaddr.Addr) bool {
	ap := a.AddrPort()
	if ap.Port() == 0 {
		return false // another family, or there was no free port
	}
	b, err := newSockaddr(netip.AddrPortFrom(ap.Addr(), 0))
	if err != nil {
		return false
	}
	ch := id.Channel()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	h, err := id.lib.CreateID(ch.file.handle, uint32(id.ps))
	if err != nil {
		return false
	}
	err = id.lib.BindAddr(h, &b)
	ch.discard(h)
	return err == nil
}

// ResolveAddr finds the device, the source address and the next hop for a destination.
// EventAddrResolved or EventAddrError follows. A zero src lets the kernel choose; a src with a port
// but no address sets only the port. An ID that is bound keeps its address: src must then be zero or the same.
//
// C: rdma_resolve_addr(3).
func (id *ID) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error {
	return id.do("resolve address", func() error {
		d, err := newSockaddr(dst)
		if err != nil {
			return err
		}
		var s *sockaddr.Addr
		if src.Addr().IsValid() {
			a, err := newSockaddr(src)
			if err != nil {
				return err
			}
			if family(&a) != family(&d) {
				return &ibv.ArgError{Arg: "source address", Got: fmt.Sprintf("%v, %v", src, family(&a)),
					Want: fmt.Sprintf("the family %v, as the destination %v", family(&d), dst)}
			}
			s = &a
		} else if src.Port() != 0 {
			a, _ := newSockaddr(netip.AddrPortFrom(unspecified(dst.Addr()), src.Port()))
			s = &a
		}
		if err := id.checkSource(src); err != nil {
			return err
		}
		return id.resolve(s, &d, timeout, dst.String())
	})
}

// checkSource rejects a source that differs from the address that the ID is bound to. The kernel would ignore it.
//
// Preconditions: the ID is entered.
func (id *ID) checkSource(src netip.AddrPort) error {
	k := id.lib.State(id.handle)
	bound := k.Src.AddrPort()
	if id.order.load() != stageBound || !bound.IsValid() {
		return nil
	}
	ip, have := src.Addr().Unmap().WithZone(""), bound.Addr().Unmap().WithZone("")
	if (src.Port() == 0 || src.Port() == bound.Port()) && (!ip.IsValid() || ip.IsUnspecified() || ip == have) {
		return nil
	}
	return &ibv.ArgError{Arg: "source address", Got: src.String(),
		Want: fmt.Sprintf("none, or %v, to which the ID is bound", bound)}
}

// ResolveIB is ResolveAddr for InfiniBand addresses; src may be nil.
//
// Experimental: no device has run this. See docs/stability.md.
func (id *ID) ResolveIB(src *IBAddr, dst IBAddr, timeout time.Duration) error {
	return id.do("resolve address", func() error {
		var s *sockaddr.Addr
		if src != nil {
			a := src.sockaddr()
			s = &a
		}
		d := dst.sockaddr()
		return id.resolve(s, &d, timeout, dst.GID.String())
	})
}

func (id *ID) resolve(src, dst *sockaddr.Addr, timeout time.Duration, text string) error {
	ms, err := millis(timeout)
	if err != nil {
		return err
	}
	if err := id.lib.ResolveAddr(id.handle, src, dst, ms); err != nil {
		hint, err := id.explainResolve(src, noLoopback(dst, noZone(dst, err)))
		return &ibv.OpError{Op: "resolve address", Object: id.name, Err: err, Detail: text + hint}
	}
	id.order.advance(stageResolving)
	return nil
}

// noLoopback returns the cause of an EINVAL if that is a loopback address, which devices of iWARP cannot have.
func noLoopback(a *sockaddr.Addr, err error) error {
	if err != syscall.EINVAL || !a.AddrPort().Addr().Unmap().IsLoopback() {
		return err
	}
	return fmt.Errorf("%w that connects by a loopback address, give that of its interface (rdma_cm: %w)",
		ibv.ErrNoDevice, err)
}

func (id *ID) explainResolve(src *sockaddr.Addr, err error) (hint string, cause error) {
	switch {
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return ": no route to it", err
	case src == nil && errors.Is(err, syscall.ENODEV):
		return ": no RDMA device leads to it", err
	case src == nil:
		return "", err
	}
	hint, err = id.explainAddr(src, err)
	if hint != "" {
		hint = ": of the source" + hint
	}
	return hint, err
}

func unspecified(like netip.Addr) netip.Addr {
	if like.Unmap().Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// millis returns d in milliseconds, rounded up, at most the 24 days that a C int holds.
func millis(d time.Duration) (int, error) {
	if d <= 0 {
		return 0, &ibv.ArgError{Arg: "timeout", Got: d.String(), Want: "more than 0"}
	}
	ms := d / time.Millisecond
	if d%time.Millisecond != 0 {
		ms++
	}
	return int(min(ms, math.MaxInt32)), nil
}

// ResolveRoute finds the path to the destination of ResolveAddr. EventRouteResolved or
// EventRouteError follows.
//
// C: rdma_resolve_route(3).
func (id *ID) ResolveRoute(timeout time.Duration) error {
	const op = "resolve route"
	return id.bound(op, func() error {
		ms, err := millis(timeout)
		if err != nil {
			return err
		}
		if err := id.lib.ResolveRoute(id.handle, ms); err != nil {
			return err
		}
		id.order.advance(stageRouting)
		return nil
	})
}

// Listen makes the ID accept connection requests; each is an EventConnectRequest. The kernel queues up to backlog
// unread requests. It drops further ones without a reply, and their senders try again after some seconds. A backlog of
// 0 is the most that the kernel allows (net.rdma_ucm.max_backlog).
//
// C: rdma_listen(3).
func (id *ID) Listen(backlog int) error {
	return id.do("listen", func() error {
		if backlog < 0 || backlog > math.MaxInt32 {
			return &ibv.ArgError{Arg: "backlog", Got: fmt.Sprint(backlog), Want: fmt.Sprintf("0 to %d", math.MaxInt32)}
		}
		if err := id.lib.Listen(id.handle, backlog); err != nil {
			k := id.lib.State(id.handle)
			hint, err := id.explainAddr(&k.Src, err)
			return &ibv.OpError{Op: "listen", Object: id.name, Err: err, Detail: id.text() + hint}
		}
		id.order.advance(stageListening)
		return nil
	})
}

// text formats the local address of the ID.
// Preconditions: the ID is entered.
func (id *ID) text() string {
	k := id.lib.State(id.handle)
	if ap := k.Src.AddrPort(); ap.IsValid() {
		return ap.String()
	}
	return noAddress
}

const noAddress = "no address"

// LocalAddr returns the address that the ID is bound to; zero for none.
//
// C: rdma_get_local_addr(3).
func (id *ID) LocalAddr() netip.AddrPort { return id.state().Src.AddrPort() }

// PeerAddr returns the peer's address; zero for none.
//
// C: rdma_get_peer_addr(3).
func (id *ID) PeerAddr() netip.AddrPort { return id.state().Dst.AddrPort() }

// LocalIB returns the address that the ID is bound to, and reports whether it is an InfiniBand address.
//
// Experimental: no device has run this. See docs/stability.md.
func (id *ID) LocalIB() (IBAddr, bool) { return ibAddr(&id.state().Src) }

// PeerIB returns the peer's address, and reports whether it is an InfiniBand address.
//
// Experimental: no device has run this. See docs/stability.md.
func (id *ID) PeerIB() (IBAddr, bool) { return ibAddr(&id.state().Dst) }

// SrcPort returns the local port, 0 for none.
//
// C: rdma_get_src_port(3).
func (id *ID) SrcPort() uint16 { return id.state().Src.Port() }

// DstPort returns the peer's port, 0 for none.
//
// C: rdma_get_dst_port(3).
func (id *ID) DstPort() uint16 { return id.state().Dst.Port() }
