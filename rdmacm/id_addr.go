package rdmacm

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/bind/librdmacm"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// Bind binds the ID to a local address and port (0 lets the kernel choose one) and, unless the
// address is unspecified, to a device.
//
// C: rdma_bind_addr(3).
func (id *ID) Bind(addr netip.AddrPort) error {
	return id.do("bind", func() error {
		a, err := newSockaddr(addr)
		if err != nil {
			return err
		}
		return id.bind(&a, addr.String(), addr.Addr().IsUnspecified())
	})
}

// BindIB is Bind for an InfiniBand address.
//
// Experimental: no device has run this. See docs/stability.md.
func (id *ID) BindIB(addr IBAddr) error {
	return id.do("bind", func() error {
		a := addr.sockaddr()
		return id.bind(&a, addr.GID.String(), false)
	})
}

func (id *ID) bind(a *sockaddr.Addr, text string, wildcard bool) error {
	if err := id.lib.BindAddr(id.handle, a); err != nil {
		return &ibv.OpError{Op: "bind", Object: id.name, Err: err, Detail: text + bindHint(err, wildcard)}
	}
	return nil
}

// bindHint returns the meaning of an errno. For a port that is in use the kernel has EADDRNOTAVAIL if one of the two
// addresses is unspecified.
func bindHint(err error, wildcard bool) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE), wildcard && errors.Is(err, syscall.EADDRNOTAVAIL):
		return ": the port is in use in this port space"
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EADDRNOTAVAIL):
		return ": no RDMA device of this host has the address"
	}
	return ""
}

// ResolveAddr finds the device, the source address and the next hop for a destination.
// EventAddrResolved or EventAddrError follows. A zero src lets the kernel choose; a src with a port
// but no address sets only the port.
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
		return id.resolve(s, &d, timeout, dst.String())
	})
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
		return &ibv.OpError{Op: "resolve address", Object: id.name, Err: err, Detail: text + resolveHint(err)}
	}
	return nil
}

func resolveHint(err error) string {
	switch {
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EADDRNOTAVAIL):
		return ": no RDMA device has the source address"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return ": no route to it"
	case errors.Is(err, syscall.EADDRINUSE):
		return ": the source port is in use in this port space"
	}
	return ""
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
		return id.lib.ResolveRoute(id.handle, ms)
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
			return &ibv.OpError{Op: "listen", Object: id.name, Err: err, Detail: id.text(librdmacm.Src) +
				bindHint(err, true)} // an address that was bound is there
		}
		return nil
	})
}

// text formats an address of the ID.
// Preconditions: the ID is entered.
func (id *ID) text(of func(uintptr) sockaddr.Addr) string {
	a := of(id.handle)
	if ap := a.AddrPort(); ap.IsValid() {
		return ap.String()
	}
	return "no address"
}

// LocalAddr returns the address that the ID is bound to; zero for none.
//
// C: rdma_get_local_addr(3).
func (id *ID) LocalAddr() netip.AddrPort { return id.addr(librdmacm.Src) }

// PeerAddr returns the peer's address; zero for none.
//
// C: rdma_get_peer_addr(3).
func (id *ID) PeerAddr() netip.AddrPort { return id.addr(librdmacm.Dst) }

func (id *ID) addr(of func(uintptr) sockaddr.Addr) netip.AddrPort {
	if id.enter("address") != nil {
		return netip.AddrPort{}
	}
	defer id.leave()
	a := of(id.handle)
	return a.AddrPort()
}

// LocalIB returns the address that the ID is bound to, and reports whether it is an InfiniBand address.
//
// Experimental: no device has run this. See docs/stability.md.
func (id *ID) LocalIB() (IBAddr, bool) { return id.ibAddr(librdmacm.Src) }

// PeerIB returns the peer's address, and reports whether it is an InfiniBand address.
//
// Experimental: no device has run this. See docs/stability.md.
func (id *ID) PeerIB() (IBAddr, bool) { return id.ibAddr(librdmacm.Dst) }

func (id *ID) ibAddr(of func(uintptr) sockaddr.Addr) (IBAddr, bool) {
	if id.enter("address") != nil {
		return IBAddr{}, false
	}
	defer id.leave()
	a := of(id.handle)
	return ibAddr(&a)
}

// SrcPort returns the local port, 0 for none.
//
// C: rdma_get_src_port(3).
func (id *ID) SrcPort() uint16 { return id.port(librdmacm.Src) }

// DstPort returns the peer's port, 0 for none.
//
// C: rdma_get_dst_port(3).
func (id *ID) DstPort() uint16 { return id.port(librdmacm.Dst) }

func (id *ID) port(of func(uintptr) sockaddr.Addr) uint16 {
	if id.enter("port") != nil {
		return 0
	}
	defer id.leave()
	a := of(id.handle)
	return a.Port()
}
