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

// Bind gives the ID a local address, a local port (0 picks one) and, unless the
// address is unspecified, a device.
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

// BindIB is Bind for an address of InfiniBand.
func (id *ID) BindIB(addr IBAddr) error {
	return id.do("bind", func() error {
		a := addr.sockaddr()
		return id.bind(&a, addr.GID.String())
	})
}

func (id *ID) bind(a *sockaddr.Addr, text string) error {
	if err := id.lib.BindAddr(id.handle, a); err != nil {
		return &ibv.OpError{Op: "bind", Object: id.name, Err: err, Detail: text + bindHint(err)}
	}
	return nil
}

func bindHint(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return ": the port is taken in this port space"
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EADDRNOTAVAIL):
		return ": no RDMA device of this host carries the address"
	}
	return ""
}

// ResolveAddr finds the device, the source address and the way to the neighbour
// for a destination: EventAddrResolved follows, or EventAddrError. A zero src lets
// the kernel choose; a src without an address, but with a port, is that port.
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
					Want: fmt.Sprintf("of %v, as the destination %v", family(&d), dst)}
			}
			s = &a
		} else if src.Port() != 0 {
			a, _ := newSockaddr(netip.AddrPortFrom(unspecified(dst.Addr()), src.Port()))
			s = &a
		}
		return id.resolve(s, &d, timeout, dst.String())
	})
}

// ResolveIB is ResolveAddr for addresses of InfiniBand; src may be nil.
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
		return ": no RDMA device carries the source address"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return ": no route to it"
	case errors.Is(err, syscall.EADDRINUSE):
		return ": the source port is taken in this port space"
	}
	return ""
}

func unspecified(like netip.Addr) netip.Addr {
	if like.Unmap().Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// millis rounds up. It is at most what an int of C holds, 24 days.
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

// ResolveRoute finds the path to the destination of ResolveAddr: the event
// EventRouteResolved follows, or EventRouteError.
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

// Listen makes the ID take requests: EventConnectRequest follow. The kernel
// keeps up to backlog of them that nobody has read; it drops more without an
// answer, and their senders try again after some seconds. 0 is the most that it
// allows (net.rdma_ucm.max_backlog).
//
// C: rdma_listen(3).
func (id *ID) Listen(backlog int) error {
	return id.do("listen", func() error {
		if backlog < 0 || backlog > math.MaxInt32 {
			return &ibv.ArgError{Arg: "backlog", Got: fmt.Sprint(backlog), Want: fmt.Sprintf("0 to %d", math.MaxInt32)}
		}
		if err := id.lib.Listen(id.handle, backlog); err != nil {
			return &ibv.OpError{Op: "listen", Object: id.name, Err: err, Detail: id.text(librdmacm.Src) + bindHint(err)}
		}
		return nil
	})
}

// text is an address of the ID as text.
// Preconditions: the ID is entered.
func (id *ID) text(of func(uintptr) sockaddr.Addr) string {
	a := of(id.handle)
	if ap := a.AddrPort(); ap.IsValid() {
		return ap.String()
	}
	return "no address"
}

// LocalAddr is the address that the ID is bound to; zero for none.
//
// C: rdma_get_local_addr(3).
func (id *ID) LocalAddr() netip.AddrPort { return id.addr(librdmacm.Src) }

// PeerAddr is the peer's address; zero for none.
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

// LocalIB is the address that the ID is bound to where it is one of InfiniBand.
func (id *ID) LocalIB() (IBAddr, bool) { return id.ibAddr(librdmacm.Src) }

// PeerIB is the peer's address where it is one of InfiniBand.
func (id *ID) PeerIB() (IBAddr, bool) { return id.ibAddr(librdmacm.Dst) }

func (id *ID) ibAddr(of func(uintptr) sockaddr.Addr) (IBAddr, bool) {
	if id.enter("address") != nil {
		return IBAddr{}, false
	}
	defer id.leave()
	a := of(id.handle)
	return ibAddr(&a)
}

// SrcPort is the local port, 0 for none.
//
// C: rdma_get_src_port(3).
func (id *ID) SrcPort() uint16 { return id.port(librdmacm.Src) }

// DstPort is the peer's port, 0 for none.
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
