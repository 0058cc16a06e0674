package rdma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// attempt is a connection that is being made.
type attempt struct {
	kind wire.ConnKind
	opt  *Options
	e    *shard
	link *link

	leases *LeaseOptions // nil: no remote memory, regardless of the peer
}

// options are those of the connection manager: everything about the QP is set once the device is
// known.
func (a *attempt) options() *rdmacm.Options {
	o := a.opt.cm()
	o.Use = a.use
	o.Prepare = func(c *rdmacm.Conn) error {
		var leases *leasing
		if a.leases != nil {
			leases = newLeasing(a.leases)
		}
		a.link = newLink(a.e, a.kind, a.opt, leases)
		return a.link.prepare(c)
	}
	o.Access = ibv.NoRemoteAccess
	o.ResponderResources, o.InitiatorDepth = ibv.Zero, ibv.Zero
	o.RNRRetryCount = 7
	return &o
}

func (a *attempt) use(dev *ibv.Device, o *rdmacm.Options) error {
	e, err := a.opt.engine(dev)
	if err != nil {
		return err
	}
	s, err := e.shard().reserve(a.kind)
	if err != nil {
		return err
	}
	a.e = s
	o.PD, o.SendCQ, o.RecvCQ = e.pd, s.cq, s.cq
	o.QP = ibv.QPOptions{SRQ: s.srq, MaxSendWR: sendq.Depth, MaxSendSGE: 2, MaxInline: sendq.MaxInline}
	h := wire.Hello{Min: wire.MinVersion, Max: wire.MaxVersion, Kind: a.kind, Flags: wire.HelloPacks,
		Block: uint32(s.opt.Block), Limit: startWindow, MaxMessage: uint32(a.opt.maxMessage())}
	if a.leases != nil {
		h.Flags |= wire.HelloLeases
		o.ResponderResources, o.InitiatorDepth = 0, 0 // what both devices support
	}
	copy(h.App[:], a.opt.PrivateData)
	o.PrivateData = h.Encode()
	return nil
}

// undo frees what a failed attempt has.
func (a *attempt) undo() {
	switch {
	case a.link != nil:
		a.link.abandon()
	case a.e != nil:
		a.e.unreserve()
	}
}

// dial makes a connection to host:port.
func dial(ctx context.Context, addr string, kind wire.ConnKind, opt *Options) (*link, error) {
	if opt == nil {
		opt = &Options{}
	}
	fail := func(err error) (*link, error) { return nil, &ibv.OpError{Op: "dial", Object: addr, Err: err} }
	if err := opt.check(kind); err != nil {
		return fail(err)
	}
	a := &attempt{kind: kind, opt: opt, leases: opt.leases(kind)}
	c, err := rdmacm.Dial(ctx, addr, a.options())
	if err != nil {
		a.undo()
		var reject *rdmacm.RejectError
		if errors.As(err, &reject) {
			if why := explainReject(reject.PrivateData, kind); why != nil {
				return fail(errors.Join(why, err))
			}
		}
		return nil, err
	}
	peer, _, err := wire.ParseHello(c.PrivateData(), kind)
	if err != nil {
		err = public(err)
		a.link.fail(err)
		return fail(err)
	}
	a.link.start(peer)
	return a.link, nil
}

// explainReject returns why the peer refused, or nil if its private data does not have the reason.
func explainReject(data []byte, kind wire.ConnKind) error {
	r, ok := wire.ParseRejection(data)
	switch {
	case !ok, r.Reason == wire.RejectOther:
		return nil
	case r.Reason == wire.RejectVersion:
		return &VersionError{PeerMin: r.Min, PeerMax: r.Max}
	case r.Reason == wire.RejectKind:
		return &ProtocolError{Frame: "private data", Got: kind.String(), Want: "what the peer listens for: Dial goes " +
			"with Listen, DialStream with ListenStream"}
	}
	return fmt.Errorf("the peer refused: %v", r.Reason)
}

// listener accepts connections of one kind.
type listener struct {
	cm    *rdmacm.Listener
	kind  wire.ConnKind
	opt   Options
	ready chan *link
	slots chan struct{} // handshakes in progress, and connections not yet accepted
	ctx   context.Context
	stop  context.CancelFunc
	done  sync.WaitGroup

	mu  sync.Mutex
	err error // why no more come; set before ended is closed

	ended chan struct{}
}

func listen(ctx context.Context, addr string, kind wire.ConnKind, opt *Options) (*listener, error) {
	if opt == nil {
		opt = &Options{}
	}
	if err := opt.check(kind); err != nil {
		return nil, &ibv.OpError{Op: "listen", Object: addr, Err: err}
	}
	o := opt.cm()
	cm, err := rdmacm.Listen(ctx, addr, &o)
	if err != nil {
		return nil, err
	}
	l := &listener{cm: cm, kind: kind, opt: *opt, ready: make(chan *link, opt.backlog()),
		slots: make(chan struct{}, opt.backlog()), ended: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.done.Go(l.serve)
	return l, nil
}

// serve begins a handshake for each request.
func (l *listener) serve() {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
			l.end(ErrClosed)
			return
		}
		r, err := l.cm.Next(l.ctx)
		if err != nil {
			if l.ctx.Err() != nil {
				err = ErrClosed
			}
			l.end(err)
			return
		}
		l.done.Go(func() {
			if !l.handshake(r) {
				<-l.slots
			}
		})
	}
}

func (l *listener) end(err error) {
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
	close(l.ended)
}

// handshake replies to a request, and reports whether there is a connection.
func (l *listener) handshake(r *rdmacm.Request) bool {
	peer, reason, err := wire.ParseHello(r.PrivateData(), l.kind)
	if err != nil {
		_ = r.Reject(wire.Rejection{Min: wire.MinVersion, Max: wire.MaxVersion, Reason: reason}.Encode())
		return false
	}
	a := &attempt{kind: l.kind, opt: &l.opt}
	if peer.Flags&wire.HelloLeases != 0 {
		a.leases = l.opt.leases(l.kind)
	}
	o := a.options()
	o.Timeout = l.opt.handshakeTime()
	if _, err := r.Accept(l.ctx, o); err != nil {
		a.undo()
		return false
	}
	a.link.start(peer)
	l.ready <- a.link // there is room: see slots
	return true
}

// accept waits for the next connection.
func (l *listener) accept(ctx context.Context) (*link, error) {
	for {
		select {
		case c := <-l.ready:
			<-l.slots
			return c, nil
		default:
		}
		select {
		case c := <-l.ready:
			<-l.slots
			return c, nil
		case <-l.ended:
			l.mu.Lock()
			defer l.mu.Unlock()
			return nil, &ibv.OpError{Op: "accept", Object: l.addr().String(), Err: l.err}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *listener) addr() netip.AddrPort { return l.cm.Addr() }

// close ends the listener, and the connections that were not accepted.
func (l *listener) close() error {
	l.stop()
	l.done.Wait()
	for {
		select {
		case c := <-l.ready:
			c.close()
			continue
		default:
		}
		return l.cm.Close()
	}
}
