package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// Dial connects to host:port. A host name is resolved, and its addresses are tried
// in turn. opt may be nil.
//
// It gives up when ctx ends or after Options.Timeout; then nothing of the attempt remains. If the
// peer refuses, the error is a *RejectError with the peer's private data.
func Dial(ctx context.Context, addr string, opt *Options) (*Conn, error) {
	const op = "dial"
	if opt == nil {
		opt = &Options{}
	}
	if err := opt.check(); err != nil {
		return nil, &ibv.OpError{Op: op, Object: addr, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, opt.timeout())
	defer cancel()
	addrs, err := lookup(ctx, addr)
	if err != nil {
		return nil, &ibv.OpError{Op: op, Object: addr, Err: err}
	}
	var errs []error
	for _, a := range addrs {
		c, err := dial(ctx, a, opt)
		if err == nil {
			return c, nil
		}
		errs = append(errs, &ibv.OpError{Op: op, Object: a.String(), Err: err})
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 1 {
		return nil, errs[0]
	}
	return nil, &ibv.OpError{Op: op, Object: addr, Err: errors.Join(errs...)}
}

// DialAddr is Dial for an address that needs no resolution.
func DialAddr(ctx context.Context, addr netip.AddrPort, opt *Options) (*Conn, error) {
	if opt == nil {
		opt = &Options{}
	}
	if err := opt.check(); err != nil {
		return nil, &ibv.OpError{Op: "dial", Object: addr.String(), Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, opt.timeout())
	defer cancel()
	c, err := dial(ctx, addr, opt)
	if err != nil {
		return nil, &ibv.OpError{Op: "dial", Object: addr.String(), Err: err}
	}
	return c, nil
}

func dial(ctx context.Context, addr netip.AddrPort, opt *Options) (*Conn, error) {
	h, err := dialHub()
	if err != nil {
		return nil, err
	}
	ps := opt.portSpace()
	var id *ID
	err = limited(func() error { id, err = h.ch.CreateID(ps); return err })
	if err != nil {
		return nil, errors.Join(err, h.leave())
	}
	c := newConn(id, h, ps)
	c.remote = addr
	if err := c.removed(c.dial(ctx, addr, opt)); err != nil {
		opt.failed(c, err)
		if cerr := dispose(c); cerr != nil {
			err = errors.Join(err, cerr)
		}
		return nil, err
	}
	return c, nil
}

func (c *Conn) dial(ctx context.Context, addr netip.AddrPort, opt *Options) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wait := resolveTimeout
	if end, ok := ctx.Deadline(); ok {
		// End before ctx: the kernel's event is more precise than "deadline exceeded".
		wait = max(min(wait, time.Until(end)/10*9), time.Millisecond)
	}
	if err := limited(func() error {
		if err := opt.apply(c.id); err != nil {
			return err
		}
		return c.id.ResolveAddr(opt.LocalAddr, addr, wait)
	}); err != nil {
		return err
	}
	if _, err := c.await(ctx, EventAddrResolved); err != nil {
		return err
	}
	if err := limited(func() error { return c.id.ResolveRoute(wait) }); err != nil {
		return err
	}
	if _, err := c.await(ctx, EventRouteResolved); err != nil {
		return err
	}
	opt, err := c.setup(opt)
	if err != nil {
		return err
	}
	if !c.life.TryEnter() {
		return c.Err() // others have closed it
	}
	defer c.life.Leave()
	p := opt.param(c.qp.Num(), c.srq)
	if err := limited(func() error { return c.id.Connect(p) }); err != nil {
		return err
	}
	if c.ps.datagram() {
		return c.dialed(ctx)
	}
	ev, err := c.await(ctx, EventConnectResponse)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.peer = ev.Conn
	c.peer.PrivateData = ev.PrivateData
	c.mu.Unlock()
	if err := limited(func() error {
		if err := c.id.BringUp(c.qp, p); err != nil {
			return err
		}
		return c.id.Establish()
	}); err != nil {
		return afterReply(c.cause(err))
	}
	c.ready()
	return nil
}

// afterReply notes that a rejection came after the peer's reply.
func afterReply(err error) error {
	var e *RejectError
	if errors.As(err, &e) {
		e.Accepted = true
	}
	return err
}

// dialed finishes Dial in a datagram port space: the peer's reply has the address of its QP.
func (c *Conn) dialed(ctx context.Context) error {
	ev, err := c.await(ctx, EventEstablished)
	if err != nil {
		return err
	}
	if ev.UD == nil {
		return &EventError{Type: ev.Type, Status: ev.Status}
	}
	if err := c.id.BringUp(c.qp, nil); err != nil {
		return err
	}
	ah, err := c.pd.CreateAH(&ev.UD.AH)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.peer.PrivateData, c.ud, c.ah = ev.PrivateData, ev.UD, ah
	c.mu.Unlock()
	c.ready()
	return nil
}

// cause returns the event that explains why a call failed, if one arrives. If the peer has gone,
// the kernel reports EINVAL first and the event a moment later.
func (c *Conn) cause(err error) error {
	if !errors.Is(err, syscall.EINVAL) {
		return err
	}
	timer := time.NewTimer(eventDelay)
	defer timer.Stop()
	select {
	case ev := <-c.events:
		if e := ev.Err(); e != nil {
			return e
		}
	case <-c.done:
		return c.Err()
	case <-timer.C:
	}
	return err
}

// lookup resolves host:port.
func lookup(ctx context.Context, addr string) ([]netip.AddrPort, error) {
	if a, err := netip.ParseAddrPort(addr); err == nil {
		return []netip.AddrPort{a}, nil
	}
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		return nil, &ibv.ArgError{Arg: "address", Got: fmt.Sprintf("%q, without a host", addr), Want: "host:port"}
	}
	ips, err := sockaddr.LookUp(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	list := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		list[i] = netip.AddrPortFrom(ip.Unmap(), uint16(port))
	}
	return list, nil
}
