package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/life"
)

// Listener accepts connections. It shares one event channel with its connections.
//
// It belongs to the caller and is safe for concurrent use. Close refuses pending requests;
// connections that Accept has returned stay open.
type Listener struct {
	life life.Object // its users are handshakes
	ids  []*ID
	hub  *hub
	opt  Options
	addr netip.AddrPort
	loop bool // the address is a loopback address, which is a wildcard for rdma_cm

	requests chan *Request
	ready    chan accepted
	done     chan struct{}
	open     context.Context // done when Close begins
	end      context.CancelFunc
	ended    chan struct{} // has a token when a handshake has ended, for one of those in Accept

	mu         sync.Mutex
	err        error // why there are no more requests
	handshakes int   // in progress

	unclosed []*Conn // used by Close alone: never accepted, and not closed yet
}

type accepted struct {
	conn *Conn
	err  error
}

// Listen listens on host:port. An empty host means every address of both families, port 0 any free
// port. opt may be nil; it also applies to the connections.
//
// On a loopback address (localhost, 127.0.0.1 or ::1) the Listener rejects requests to other addresses. rdma_cm itself
// takes such an address for a wildcard: the port is in use on all addresses, and requests to all arrive. The address
// of a request is the one that the peer states, so it does not authenticate the peer.
func Listen(ctx context.Context, addr string, opt *Options) (*Listener, error) {
	const op = "listen"
	if opt == nil {
		opt = &Options{}
	}
	fail := func(err error) (*Listener, error) { return nil, &ibv.OpError{Op: op, Object: addr, Err: err} }
	if err := errors.Join(opt.check(), opt.checkUses(listening, opt.portSpace())); err != nil {
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
	l := &Listener{
		hub: h, opt: *opt, loop: at.Addr().Unmap().IsLoopback(),
		requests: make(chan *Request, opt.backlog()), ready: make(chan accepted, opt.backlog()),
		done:  make(chan struct{}),
		ended: make(chan struct{}, 1),
	}
	l.open, l.end = context.WithCancel(context.Background())
	err = l.bind(at, strings.HasPrefix(addr, ":"))
	for _, id := range l.ids {
		if err == nil {
			// Requests are read at once and queued here. The kernel drops those beyond its own backlog,
			// and the peer tries again after some seconds.
			err = id.Listen(max(opt.backlog(), defaultBacklog))
		}
	}
	if err != nil {
		l.end()
		return fail(errors.Join(err, l.unbind(), h.leave()))
	}
	l.addr = l.ids[0].LocalAddr()
	return l, nil
}

// lookupLocal resolves host:port to an address to listen on.
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
		if l.loop && !ev.ID.LocalAddr().Addr().Unmap().IsLoopback() {
			if l.hub.join() {
				go l.refuse(ev.ID)
			} else {
				go dispose(ev.ID)
			}
			return
		}
		r := &Request{opt: &l.opt, param: ev.Conn, ud: ev.UD}
		r.param.PrivateData = ev.PrivateData
		if !l.hub.join() {
			go dispose(ev.ID)
			return
		}
		r.conn = newConn(ev.ID, l.hub, ev.Listener.ps)
		r.conn.remote = ev.ID.PeerAddr()
		if l.life.TryEnter() {
			defer l.life.Leave()
			select {
			case l.requests <- r:
				return
			default:
			}
		}
		// The backlog is full. Closing the ID refuses the request. That needs another goroutine:
		// leaving the hub may wait for this one.
		go dispose(r.conn)
	case EventDeviceRemoval:
		l.finish(ev.Err())
	}
}

// refuse rejects a request to another address than the Listener's.
// Preconditions: the hub has one more user.
func (l *Listener) refuse(id *ID) {
	_ = id.Reject(nil)
	_ = dispose(id)
	_ = l.hub.leave()
}

func (l *Listener) finish(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.done)
	}
}

// Addr returns the address that it listens on.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// ID returns the listening identifier, for all addresses of both families that of IPv6. Do not close it, and do not
// read its channel.
func (l *Listener) ID() *ID { return l.ids[0] }

// Accept waits for the next connection, which is established when it returns. While a goroutine is
// in Accept, handshakes run with all peers that request a connection, up to Options.Backlog at
// once, so a slow peer does not delay others. A peer that goes away during its handshake is
// skipped; one that has completed it and has left since is not. A peer that executes fewer reads than
// Options.InitiatorDepth asks for is refused; Options.Failed gets the reason. An error is therefore local: a
// resource is missing, ctx has ended, or the Listener is closed (ErrClosed).
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	defer l.wake() // another Accept, whose token this one may have taken
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

// wake makes a goroutine in Accept look again whether there is room for a handshake.
func (l *Listener) wake() {
	select {
	case l.ended <- struct{}{}:
	default:
	}
}

// handshake starts the handshake of a request.
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
			l.wake()
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
		d *ibv.LimitError
	)
	if errors.As(err, &d) && d.Where == peersRequest {
		return true
	}
	return errors.As(err, &e) && e.Type != EventDeviceRemoval || errors.As(err, &r) || errors.Is(err, ErrWithdrawn) ||
		errors.Is(err, context.DeadlineExceeded)
}

// Next waits for the next request, which the caller accepts or rejects. Use either Next or Accept.
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

// Close stops listening. It refuses pending requests and closes connections that Accept has not
// returned; others stay open. If Close fails, call it again.
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
	var errs []error
	for _, id := range l.ids {
		errs = append(errs, id.Close()) // no request arrives after this
	}
	l.unclosed = append(l.unclosed, l.unaccepted()...)
	l.unclosed = slices.DeleteFunc(l.unclosed, func(c *Conn) bool {
		err := c.Close()
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

// unaccepted removes and returns the requests and connections that were not accepted.
func (l *Listener) unaccepted() (list []*Conn) {
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

// Request is a peer's request for a connection.
type Request struct {
	conn  *Conn
	opt   *Options
	param ConnParam
	ud    *UDParam
}

// PrivateData returns the peer's private data in a buffer of the transport's full size, padded with
// zeros.
func (r *Request) PrivateData() []byte { return r.param.PrivateData }

// Param returns the parameters that the peer requests.
func (r *Request) Param() ConnParam { return r.param }

// RemoteAddr returns the peer's address.
func (r *Request) RemoteAddr() netip.AddrPort { return r.conn.RemoteAddr() }

// ID returns the identifier of the connection, which gives access to its device. Do not close it.
func (r *Request) ID() *ID { return r.conn.id }

// Accept accepts the connection and waits until it is established. If opt is nil, the Listener's
// options apply. If Accept fails, the request has been closed.
func (r *Request) Accept(ctx context.Context, opt *Options) (*Conn, error) {
	if opt == nil {
		opt = r.opt
	}
	ctx, cancel := context.WithTimeout(ctx, opt.timeout())
	defer cancel()
	err := r.conn.handshake(opt, func() error {
		if err := r.conn.removed(r.accept(ctx, opt)); err != nil {
			return &ibv.OpError{Op: "accept", Object: r.RemoteAddr().String(), Err: err}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r.conn, nil
}

func (r *Request) accept(ctx context.Context, opt *Options) error {
	c := r.conn
	c.peer = r.param
	if err := errors.Join(opt.check(), opt.checkUses(listening, c.ps)); err != nil {
		return err
	}
	if opt.PortSpace != 0 && opt.PortSpace != c.ps {
		return &ibv.ArgError{Arg: "PortSpace", Got: opt.PortSpace.String(),
			Want: c.ps.String() + ", as of the Listener"}
	}
	if err := opt.applyAckTimeout(c.id); err != nil {
		return err
	}
	opt, err := c.setup(opt)
	if err != nil {
		return err
	}
	p := opt.param(c.qp.Num(), c.srq)
	return c.whileOpen(func() error {
		err := limited(func() error {
			if err := c.id.BringUp(c.qp, p); err != nil {
				return err
			}
			return c.id.Accept(p)
		})
		if err == nil && !c.ps.datagram() {
			err = c.awaitEstablished(ctx)
		}
		if err == nil {
			c.ready()
		}
		return err
	})
}

// Reject refuses the connection, and closes the request. The peer's error holds data, padded with zeros. The error is
// ErrWithdrawn if the peer has already given up.
func (r *Request) Reject(data []byte) error {
	err := r.conn.id.Reject(data)
	return errors.Join(err, dispose(r.conn))
}
