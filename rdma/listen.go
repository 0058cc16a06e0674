package rdma

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/admit"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

const (
	// handshakesMost bounds the handshakes of a listener that are under way. Each has a queue pair, but no blocks.
	handshakesMost = 1024
	// handshakesLarge bounds those of streams for which large blocks are registered.
	handshakesLarge = 16
)

// listener accepts connections of one kind.
type listener struct {
	cm    *rdmacm.Listener
	kind  wire.ConnKind
	opt   Options
	gate  *admit.Gate[asker]
	ready chan *link.Link // not accepted yet; has room, see gate
	ctx   context.Context
	stop  context.CancelFunc

	pending atomic.Int32 // handshakes that have an engine
	refused tally
	log     link.Lines

	served sync.WaitGroup // serve, refusals, and decisions about peers
	ended  chan struct{}  // closed when no more come
	err    error          // why; set before

	opened *leak.Record // of the program's listener
}

// asker is a peer that asks for a connection.
type asker struct {
	r     *rdmacm.Request
	hello wire.Hello
}

func listen(ctx context.Context, addr string, kind wire.ConnKind, opt *Options) (*listener, error) {
	opt = cmp.Or(opt, &Options{})
	if err := opt.check(callOf(kind, callListen, callListenStream)); err != nil {
		return nil, &ibv.OpError{Op: "listen", Object: addr, Err: err}
	}
	o := opt.cm()
	cm, err := rdmacm.Listen(ctx, addr, &o)
	if err != nil {
		return nil, err
	}
	l := &listener{cm: cm, kind: kind, opt: *opt, ready: make(chan *link.Link, opt.backlog()),
		ended: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(context.Background())
	conns := defaultMaxConns
	if opt.Engine != nil {
		conns = opt.Engine.e.Options.MaxConns
		l.refused.use(opt.Engine.e)
	}
	l.gate = admit.New(l.ctx, admit.Limits{Handshakes: min(handshakesMost, max(conns/2, 1)), Backlog: opt.backlog(),
		Waiting: admit.WaitingMost, Grace: admit.Grace}, l.handshake)
	l.served.Go(l.serve)
	l.opened = leak.Track("listener at " + l.addr().String())
	return l, nil
}

// serve takes the requests up.
func (l *listener) serve() {
	authorize := newAuthorizer(&l.opt)
	for {
		r, err := l.cm.Next(l.ctx)
		if err != nil {
			if l.ctx.Err() != nil {
				err = ErrClosed
			}
			l.err = err
			close(l.ended)
			return
		}
		a := asker{r: r}
		var why wire.RejectReason
		if a.hello, why, err = wire.ParseHello(r.PrivateData(), l.kind); err != nil {
			l.served.Go(func() { l.refuse(r, why, err) })
			continue
		}
		authorize.ask(l.ctx, &l.served, ConnRequest{LocalAddr: r.ID().LocalAddr(), RemoteAddr: r.RemoteAddr(),
			PrivateData: bytes.Clone(a.hello.App[:])}, func(why wire.RejectReason, err error) {
			if err != nil {
				l.refuse(r, why, err)
				return
			}
			l.add(a)
		})
	}
}

// add lets a peer wait for its handshake.
func (l *listener) add(a asker) {
	switch old, over := l.gate.Add(a); {
	case over && l.ctx.Err() != nil:
		l.refuse(old.r, wire.RejectClosed, ErrClosed)
	case over:
		l.refuse(old.r, wire.RejectBusy, errCrowded)
	}
}

var errCrowded = errors.New("too many peers wait for a handshake")

// refuse ends a request that has no engine yet.
func (l *listener) refuse(r *rdmacm.Request, why wire.RejectReason, err error) {
	l.note(r.RemoteAddr(), why, err)
	_ = r.Reject(rejection(why))
}

// handshake replies to a request. Its context ends when the listener is closed or the handshake is to make room.
func (l *listener) handshake(ctx context.Context, h *admit.Handshake, a asker) {
	ctx, cancel := context.WithTimeout(ctx, l.opt.handshakeTime())
	defer cancel()
	c := l.connect(ctx, a.r, &a.hello)
	if c != nil {
		l.ready <- c
	}
	l.gate.Done(h, c != nil)
}

// connect finishes a handshake. It returns nil if there is no connection.
func (l *listener) connect(ctx context.Context, r *rdmacm.Request, peer *wire.Hello) *link.Link {
	a := &attempt{kind: l.kind, opt: &l.opt, from: l, small: l.pending.Add(1) > handshakesLarge}
	defer l.pending.Add(-1)
	if peer.Flags&wire.HelloLeases != 0 {
		a.leases = l.opt.leases(l.kind)
	}
	o := a.options()
	o.Timeout = l.opt.handshakeTime()
	from := r.RemoteAddr()
	o.Failed = func(c *rdmacm.Conn, err error) {
		why := a.reason(ctx, c, err)
		if why != wire.RejectOther {
			l.note(from, why, cmp.Or(context.Cause(ctx), err))
		}
		if a.link == nil { // no reply has been sent: see ID.Reject
			_ = c.ID().Reject(rejection(why)) // fails if the peer has gone
		}
		a.failed(c, err)
	}
	if _, err := r.Accept(ctx, o); err != nil {
		return nil
	}
	if err := a.link.Start(*peer); err != nil {
		l.note(from, wire.RejectMemory, err)
		return nil
	}
	return a.link
}

// reason returns why a handshake has failed. It is other than RejectOther if the peer did not cause that.
func (a *attempt) reason(ctx context.Context, c *rdmacm.Conn, err error) wire.RejectReason {
	switch {
	case a.why != wire.RejectOther:
		return a.why
	case errors.Is(err, rdmacm.ErrDeviceRemoved):
		return wire.RejectClosed
	case errors.Is(err, rdmacm.ErrWithdrawn):
		return wire.RejectOther
	case a.e != nil && c.QP() == nil:
		return wire.RejectQueuePairs
	case errors.Is(context.Cause(ctx), admit.ErrEvicted):
		return wire.RejectBusy
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return wire.RejectLate
	case ctx.Err() != nil:
		return wire.RejectClosed
	}
	return wire.RejectOther
}

// accept waits for the next connection.
func (l *listener) accept(ctx context.Context) (*link.Link, error) {
	select {
	case c := <-l.ready:
		l.gate.Taken()
		return c, nil
	default:
	}
	select {
	case c := <-l.ready:
		l.gate.Taken()
		return c, nil
	case <-l.ended:
		return nil, &ibv.OpError{Op: "accept", Object: l.addr().String(), Err: l.err}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) addr() netip.AddrPort { return l.cm.Addr() }

// close ends the listener, and the connections that were not accepted.
func (l *listener) close() error {
	l.opened.Done()
	l.stop()
	l.served.Wait()
	for _, a := range l.gate.Close() {
		l.refuse(a.r, wire.RejectClosed, ErrClosed)
	}
	l.gate.Wait()
	for {
		select {
		case c := <-l.ready:
			c.Close()
			continue
		default:
		}
		return l.cm.Close()
	}
}
