package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/attempts"
	"github.com/pureverbs/pureverbs/internal/foreign"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
)

// Dial connects to host:port. opt may be nil. The addresses of a host name are tried as package net does (RFC 6555):
// those of the first one's family in turn, each for its share of the time that is left, and those of the other family
// at the same time after 300 ms, or when the first ones have failed. The peer's Accept returns one connection at most.
//
// It gives up when ctx ends or after Options.Timeout; then nothing of the attempts remains. If the peer refuses, the
// error is a *RejectError with the peer's private data.
//
// On iWARP the kernel establishes a connection as soon as the peer accepts. There the peer's Accept may also return the
// connection of an attempt that is then given up, which ends at once. Some calls of C wait for the peer's host: if ctx
// ends meanwhile, Dial returns, and what the attempt has is freed when the call returns.
func Dial(ctx context.Context, addr string, opt *Options) (*Conn, error) {
	fail := func(err error) (*Conn, error) { return nil, &ibv.OpError{Op: "dial", Object: addr, Err: err} }
	if opt == nil {
		opt = &Options{}
	}
	if err := errors.Join(opt.check(), opt.checkUses(dialing, opt.portSpace())); err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, opt.timeout())
	defer cancel()
	addrs, err := lookup(ctx, addr)
	if err != nil {
		return fail(err)
	}
	return dialAny(ctx, addr, addrs, opt)
}

// dialAny is Dial of a name with these addresses.
func dialAny(ctx context.Context, name string, addrs []netip.AddrPort, opt *Options) (*Conn, error) {
	var finish attempts.Finish
	one := func(ctx context.Context, a netip.AddrPort) (*Conn, error) { return dialOne(ctx, a, opt, &finish) }
	var c *Conn
	var err error
	if opt.portSpace().datagram() {
		c, err = attempts.InTurn(ctx, addrs, one)
	} else {
		c, err = attempts.Dial(ctx, addrs, opt.LocalAddr.Addr(), one, func(c *Conn) { _ = dispose(c) })
	}
	if err != nil && len(addrs) > 1 {
		err = &ibv.OpError{Op: "dial", Object: name, Err: err}
	}
	return c, err
}

// DialAddr is Dial for an address that needs no resolution.
func DialAddr(ctx context.Context, addr netip.AddrPort, opt *Options) (*Conn, error) {
	if opt == nil {
		opt = &Options{}
	}
	if err := errors.Join(opt.check(), opt.checkUses(dialing, opt.portSpace())); err != nil {
		return nil, &ibv.OpError{Op: "dial", Object: addr.String(), Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, opt.timeout())
	defer cancel()
	return dialOne(ctx, addr, opt, new(attempts.Finish))
}

func dialOne(ctx context.Context, addr netip.AddrPort, opt *Options, finish *attempts.Finish) (*Conn, error) {
	c, err := dial(ctx, addr, opt, finish)
	if err != nil {
		return nil, &ibv.OpError{Op: "dial", Object: addr.String(), Err: err}
	}
	return c, nil
}

func dial(ctx context.Context, addr netip.AddrPort, opt *Options, finish *attempts.Finish) (*Conn, error) {
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
	if err := c.handshake(opt, func() error { return c.removed(c.dial(ctx, addr, opt, finish)) }); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Conn) dial(ctx context.Context, addr netip.AddrPort, opt *Options, finish *attempts.Finish) error {
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
	if err := c.whileOpen(func() error { return c.request(ctx, p) }); err != nil || c.ps.datagram() {
		return err
	}
	if opt.Confirm != nil {
		foreign.Call(func() { err = opt.Confirm(c) }, nil)
		if err != nil {
			return err
		}
	}
	return c.whileOpen(func() error {
		if err := finish.Begin(ctx); err != nil {
			return err
		}
		err := limited(func() error {
			if c.slow() { // the kernel has done it
				return nil
			}
			if err := c.id.BringUp(c.qp, p); err != nil {
				return err
			}
			return c.id.Establish()
		})
		finish.End(err == nil)
		if err != nil {
			return afterReply(c.cause(err))
		}
		c.ready()
		return nil
	})
}

// whileOpen calls f, which Close of another goroutine waits for.
func (c *Conn) whileOpen(f func() error) error {
	if !c.life.TryEnter() {
		return c.Err()
	}
	defer c.life.Leave()
	return f()
}

// request sends the request, and waits for the peer's reply.
func (c *Conn) request(ctx context.Context, p *ConnParam) error {
	reply := EventConnectResponse
	if c.slow() {
		reply = EventEstablished
		if err := limited(func() error { return c.id.BringUp(c.qp, p) }); err != nil {
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peer = ev.Conn
	c.peer.PrivateData = ev.PrivateData
	return nil
}

// connect sends the request. siw connects the TCP socket in this call, which nothing can end. A signal would interrupt
// it, and the kernel would connect once more from the same port, which is then in use.
func (c *Conn) connect(ctx context.Context, p *ConnParam) error {
	if !c.slow() {
		return limited(func() error { return c.id.Connect(p) })
	}
	var err error
	over := make(chan struct{})
	go func() {
		defer close(over)
		err = undisturbed(func() error { return c.id.Connect(p) })
	}()
	select {
	case <-over:
		return ofTCP(err)
	case <-ctx.Done():
		c.left = over
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
	list, err := sockaddr.Resolve(ctx, "tcp", addr)
	if bad, is := err.(*sockaddr.Error); is {
		return nil, (*ibv.ArgError)(bad)
	}
	return list, err
}
