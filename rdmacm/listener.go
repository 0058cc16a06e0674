package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/life"
)

// Listener takes connections. It and all its connections share one event channel.
//
// It belongs to the caller and is safe for concurrent use. Close refuses who waits
// still; connections that Accept has returned go on.
type Listener struct {
	life life.Object // its users are handshakes
	id   *ID
	hub  *hub
	opt  Options
	addr netip.AddrPort

	requests chan *Request
	ready    chan accepted
	done     chan struct{}
	open     context.Context // ends with Close
	end      context.CancelFunc
	ended    chan struct{} // has a token when a handshake has ended

	mu         sync.Mutex
	err        error // why there is nothing to take any more
	handshakes int   // under way

	rest []*Conn // by Close alone: nobody has taken them, and they are still to be closed
}

type accepted struct {
	conn *Conn
	err  error
}

// Listen listens on host:port; an empty host is every address of both families,
// port 0 is any that is free. opt may be nil; it counts for the connections too.
func Listen(ctx context.Context, addr string, opt *Options) (*Listener, error) {
	const op = "listen"
	if opt == nil {
		opt = &Options{}
	}
	fail := func(err error) (*Listener, error) { return nil, &ibv.OpError{Op: op, Object: addr, Err: err} }
	if err := opt.usable(); err != nil {
		return fail(err)
	}
	at, err := lookupLocal(ctx, addr)
	if err != nil {
		return fail(err)
	}
	h, err := newHub()
	if err != nil {
		return fail(err)
	}
	id, err := h.ch.CreateID(opt.portSpace())
	if err != nil {
		return fail(errors.Join(err, h.leave()))
	}
	l := &Listener{
		id: id, hub: h, opt: *opt,
		requests: make(chan *Request, opt.backlog()), ready: make(chan accepted, opt.backlog()),
		done:  make(chan struct{}),
		ended: make(chan struct{}, 1),
	}
	l.open, l.end = context.WithCancel(context.Background())
	h.serve(id, l)
	err = opt.apply(id)
	if err == nil {
		err = id.Bind(at)
	}
	if err != nil && strings.HasPrefix(addr, ":") && id.LocalAddr().Port() == 0 {
		// A host without IPv6.
		if id.Bind(netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())) == nil {
			err = nil
		}
	}
	if err == nil {
		// Requests are read at once, and wait here. The kernel drops what is beyond its
		// own backlog, and the peer tries again after seconds.
		err = id.Listen(max(opt.backlog(), defaultBacklog))
	}
	if err != nil {
		l.end()
		return fail(errors.Join(err, dispose(id), h.leave()))
	}
	l.addr = id.LocalAddr()
	return l, nil
}

// lookupLocal resolves an address to listen on.
func lookupLocal(ctx context.Context, addr string) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if host == "" {
		port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
		return netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)), err
	}
	list, err := lookup(ctx, addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return list[0], nil
}

// handle runs on the hub's goroutine.
func (l *Listener) handle(ev *Event) {
	switch ev.Type {
	case EventConnectRequest:
		r := &Request{ps: l.id.ps, opt: &l.opt, param: ev.Conn, ud: ev.UD}
		r.param.PrivateData = ev.PrivateData
		if !l.hub.join() {
			go dispose(ev.ID)
			return
		}
		r.conn = newConn(ev.ID, l.hub, l.id.ps)
		r.conn.remote = ev.ID.PeerAddr()
		if l.life.TryEnter() {
			defer l.life.Leave()
			select {
			case l.requests <- r:
				return
			default:
			}
		}
		// Full: as many wait as were asked for. Closing the ID refuses it. Leaving the
		// hub may wait for this goroutine.
		go dispose(r.conn)
	case EventDeviceRemoval:
		l.finish(ev.Err())
	}
}

func (l *Listener) finish(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.done)
	}
}

// Addr is where it listens.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// ID is the listening identifier. Do not close it, nor read its channel.
func (l *Listener) ID() *ID { return l.id }

// Accept waits for the next connection; it is established. While somebody is in
// Accept, handshakes begin with all who ask, up to Options.Backlog at once, so that
// a slow peer keeps nobody waiting; a peer that goes away in its handshake is passed
// over. An error is of this side: a resource that was missing, ctx, or ErrClosed.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	for {
		select {
		case a := <-l.ready:
			return a.conn, a.err
		default:
		}
		requests := l.requests
		l.mu.Lock()
		if l.handshakes >= cap(l.requests) {
			requests = nil
		}
		l.mu.Unlock()
		select {
		case a := <-l.ready:
			return a.conn, a.err
		case r := <-requests:
			l.handshake(r)
		case <-l.ended:
		case <-l.done:
			return nil, l.why()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// handshake begins one.
func (l *Listener) handshake(r *Request) {
	if !l.life.TryEnter() {
		_ = dispose(r.conn)
		return
	}
	l.mu.Lock()
	l.handshakes++
	l.mu.Unlock()
	go func() {
		defer l.life.Leave()
		defer func() {
			l.mu.Lock()
			l.handshakes--
			l.mu.Unlock()
			select {
			case l.ended <- struct{}{}:
			default:
			}
		}()
		c, err := r.Accept(l.open, nil)
		if err != nil && (peerFault(err) || l.open.Err() != nil) {
			return
		}
		select {
		case l.ready <- accepted{c, err}:
		case <-l.open.Done():
			if c != nil {
				_ = dispose(c)
			}
		}
	}()
}

// peerFault reports whether the peer caused a handshake to fail.
func peerFault(err error) bool {
	var (
		e *EventError
		r *RejectError
	)
	return errors.As(err, &e) && e.Type != EventDeviceRemoval || errors.As(err, &r) || errors.Is(err, ErrWithdrawn) ||
		errors.Is(err, context.DeadlineExceeded)
}

// Next waits for the next request, to be accepted or rejected by the caller. Use
// it or Accept.
func (l *Listener) Next(ctx context.Context) (*Request, error) {
	select {
	case r := <-l.requests:
		return r, nil
	case <-l.done:
		return nil, l.why()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *Listener) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &ibv.OpError{Op: "accept", Object: l.addr.String(), Err: l.err}
}

// Close stops listening. Requests that wait are refused, connections that Accept
// has not returned are closed, others go on. If it fails it has to be called again.
func (l *Listener) Close() error {
	l.finish(ErrClosed)
	l.life.Shut()
	l.end()
	closed, err := l.life.Close(l.destroy)
	if closed {
		err = l.hub.leave()
	}
	return err
}

func (l *Listener) destroy() error {
	errs := []error{l.id.Close()} // no request comes after this
	l.rest = append(l.rest, l.untaken()...)
	l.rest = slices.DeleteFunc(l.rest, func(c *Conn) bool {
		err := c.Close()
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

// untaken are the requests and connections that nobody has taken.
func (l *Listener) untaken() (list []*Conn) {
	for {
		select {
		case r := <-l.requests:
			list = append(list, r.conn)
			continue
		case a := <-l.ready:
			if a.conn != nil {
				list = append(list, a.conn)
			}
			continue
		default:
		}
		return list
	}
}

// Request is a peer that wants a connection.
type Request struct {
	conn  *Conn
	ps    PortSpace
	opt   *Options
	param ConnParam
	ud    *UDParam
}

// PrivateData is what the peer sent along, at its full size: what it did not fill
// is zero.
func (r *Request) PrivateData() []byte { return r.param.PrivateData }

// Param is what the peer asks for.
func (r *Request) Param() ConnParam { return r.param }

// RemoteAddr is the peer's address.
func (r *Request) RemoteAddr() netip.AddrPort { return r.conn.remote }

// ID is the identifier of the connection, for its device. Do not close it.
func (r *Request) ID() *ID { return r.conn.id }

// Accept takes the connection and waits until it is established; with opt nil the
// Listener's options count. When it fails nothing is left of the request.
func (r *Request) Accept(ctx context.Context, opt *Options) (*Conn, error) {
	if opt == nil {
		opt = r.opt
	}
	ctx, cancel := context.WithTimeout(ctx, opt.timeout())
	defer cancel()
	if err := r.conn.removed(r.accept(ctx, opt)); err != nil {
		err = &ibv.OpError{Op: "accept", Object: r.conn.remote.String(), Err: err}
		if cerr := dispose(r.conn); cerr != nil {
			err = errors.Join(err, cerr)
		}
		return nil, err
	}
	return r.conn, nil
}

func (r *Request) accept(ctx context.Context, opt *Options) error {
	c := r.conn
	c.peer = r.param
	if err := opt.usable(); err != nil {
		return err
	}
	if err := opt.applyAckTimeout(c.id); err != nil {
		return err
	}
	if err := r.explainWithdrawn(c.setup(opt)); err != nil {
		return err
	}
	p := opt.param(c.qp.Num(), c.srq)
	if err := r.explainWithdrawn(inTurn(func() error {
		if c.byLib {
			if err := c.id.Accept(p); err != nil {
				return err
			}
			return c.hurryRNR()
		}
		if err := c.id.BringUp(c.qp, p); err != nil {
			return err
		}
		return c.id.Accept(p)
	})); err != nil {
		return err
	}
	if !c.ps.datagram() {
		if _, err := c.await(ctx, EventEstablished); err != nil {
			return err
		}
	}
	c.ready()
	return nil
}

// explainWithdrawn explains an error: no event tells of a request that was withdrawn, but
// from then on there are no attributes for its QP.
func (r *Request) explainWithdrawn(err error) error {
	var limit *ibv.LimitError
	if !errors.Is(err, syscall.EINVAL) || r.ps.datagram() || errors.As(err, &limit) {
		return err
	}
	if r.conn.byLib { // there are no attributes to ask for, and nothing else is left that could be wrong
		return fmt.Errorf("%w: %w", ErrWithdrawn, err)
	}
	if _, _, gone := r.conn.id.QPAttr(ibv.StateRTR); errors.Is(gone, syscall.EINVAL) {
		return fmt.Errorf("%w: %w", ErrWithdrawn, err)
	}
	return err
}

// Reject refuses the connection; the peer's error has data, filled up with zeros.
func (r *Request) Reject(data []byte) error {
	err := r.conn.id.Reject(data)
	return errors.Join(err, dispose(r.conn))
}
