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
// peer refuses, the error is a *RejectError with the peer's private data. On iWARP some calls of C wait for the peer's
// host. If ctx ends meanwhile, Dial returns, and what the attempt has is freed when the call returns.
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
	err = c.removed(c.dial(ctx, addr, opt))
	if err == nil {
		return c, nil
	}
	end := func() error {
		opt.failed(c, err)
		return dispose(c)
	}
	if c.slow && ctx.Err() != nil {
		go func() {
			c.calls.Wait()
			_ = end()
		}()
		return nil, err
	}
	if cerr := end(); cerr != nil {
		err = errors.Join(err, cerr)
	}
	return nil, err
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
	p := opt.param(c.qp.Num(), c.srq)
	reply := EventConnectResponse
	if c.slow {
		reply = EventEstablished // the kernel has moved the QP
		if err := c.id.BringUp(c.qp, p); err != nil {
			return err
		}
	}
	if err := c.connect(ctx, p); err != nil {
		return err
	}
	if c.ps.datagram() {
		return c.dialed(ctx)
	}
	ev, err := c.await(ctx, reply)
	if err != nil {
		return err
	}
	c.peer = ev.Conn
	c.peer.PrivateData = ev.PrivateData
	if reply == EventConnectResponse {
		if err := limited(func() error {
			if err := c.id.BringUp(c.qp, p); err != nil {
				return err
			}
			return c.id.Establish()
		}); err != nil {
			return afterReply(c.cause(err))
		}
	}
	c.ready()
	return nil
}

// connect sends the request. siw connects the TCP socket in this call, which nothing can end. A signal would interrupt
// it, and the kernel would connect once more from the same port, which is then in use.
func (c *Conn) connect(ctx context.Context, p *ConnParam) error {
	if !c.slow {
		return limited(func() error { return c.id.Connect(p) })
	}
	done := make(chan error, 1)
	c.calls.Go(func() { done <- undisturbed(func() error { return c.id.Connect(p) }) })
	select {
	case err := <-done:
		return ofTCP(err)
	case <-ctx.Done():
		return c.explainTimeout(EventEstablished, ctx.Err())
	}
}

// ofTCP turns the errno of a TCP connection into the error of the event that other devices raise for it.
func ofTCP(err error) error {
	var (
		errno syscall.Errno
		t     EventType
	)
	if !errors.As(err, &errno) {
		return err
	}
	switch errno {
	case syscall.ECONNREFUSED, syscall.ECONNRESET:
		t = EventRejected
	case syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		t = EventUnreachable
	default:
		return err
	}
	return fmt.Errorf("%w (%w)", errOf(t, -int32(errno), false, nil), err)
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
	c.peer.PrivateData, c.ud = ev.PrivateData, ev.UD
	if err := c.id.BringUp(c.qp, nil); err != nil {
		return err
	}
	if c.ah, err = c.pd.CreateAH(&ev.UD.AH); err != nil {
		return err
	}
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
