package rdma

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/attempts"
	"github.com/pureverbs/pureverbs/internal/sockaddr"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// attempt is a connection that is being made.
type attempt struct {
	kind wire.ConnKind
	opt  *Options
	e    *link.Shard
	link *link.Link

	recvKind blocks.Kind // what it has for what it receives

	leases *LeaseOptions // nil: no remote memory, regardless of the peer
	small  bool          // a stream has blocks of the size that messages have
	from   *listener     // nil: of Dial

	// Of Dial.
	finish *attempts.Finish
	last   bool // it is in its last step
	peer   wire.Hello

	why wire.RejectReason // what this side lacks
}

// options are those of the connection manager: everything about the QP is set once the device is
// known.
func (a *attempt) options() *rdmacm.Options {
	o := a.opt.cm()
	o.Use = a.use
	o.Prepare = func(c *rdmacm.Conn) error {
		return a.begin(nic.OfConn(c), a.from == nil)
	}
	o.ResponderResources, o.InitiatorDepth = None, None
	o.RNRRetryCount = 7
	o.Failed = a.failed
	return &o
}

func (a *attempt) use(dev *ibv.Device, o *rdmacm.Options) error {
	missing := wire.RejectClosed
	e, err := a.opt.useEngine(dev, func(e *link.Engine) error {
		missing = wire.RejectMemory
		return a.enter(e.Shard())
	})
	if e != nil && a.from != nil {
		a.from.refused.use(e)
	}
	if err != nil {
		a.why = lack(err, missing)
		return err
	}
	s := a.e
	o.PD, o.SendCQ, o.RecvCQ = e.PD, s.CQ.Device(), s.CQ.Device()
	o.QP = e.Sizes
	s.Receives.Options(&o.QP)
	o.Access = link.LeastAccess(s.Family())
	if a.leases != nil || o.Access != ibv.AccessNone {
		o.ResponderResources, o.InitiatorDepth = 0, 0 // what both devices support
	}
	h := a.hello()
	o.PrivateData = h.Encode()
	return nil
}

// enter makes room in base, or for a stream in the shard of large blocks that goes with it. If the windows of others
// have all large blocks, they shrink, and the stream does without.
func (a *attempt) enter(base *link.Shard) error {
	for large := a.kind == wire.Stream && !a.small; ; large = false {
		s, err := base.Reserve(large)
		if err != nil {
			return err
		}
		if a.recvKind, err = s.Receives.Admit(s, a.leases != nil); err == nil {
			a.e = s
			return nil
		}
		if s.Members.Places.Add(-1); s == base {
			return err
		}
	}
}

// hello describes this side to the peer.
func (a *attempt) hello() wire.Hello {
	h := wire.Hello{Min: wire.MinVersion, Max: wire.MaxVersion, Kind: a.kind, Flags: wire.HelloPacks,
		Block: uint32(a.e.FrameMost(a.recvKind)), Limit: link.StartWindow, MaxMessage: uint32(a.opt.maxMessage())}
	if a.leases != nil {
		h.Flags |= wire.HelloLeases
	}
	if m := a.e.Engine.Probe; m != nil {
		at := m.Remote()
		h.Flags |= wire.HelloProbe
		h.Probe = wire.Probe{Addr: at.Addr, Key: at.RKey}
	}
	copy(h.App[:], a.opt.PrivateData)
	return h
}

// begin makes the connection, which has a queue pair from now on.
func (a *attempt) begin(p nic.Conn, dials bool) error {
	if a.leases == nil {
		a.link = link.New(a.e, a.kind, a.opt.link(), nil)
	} else {
		m := newLeasing(a.leases)
		a.link = link.New(a.e, a.kind, a.opt.link(), &m.Control)
		m.l = a.link
	}
	a.link.Window.Kind = a.recvKind
	err := a.link.Prepare(p)
	if err == nil {
		err = a.link.First(dials)
	}
	if err != nil {
		a.why = lack(err, wire.RejectMemory)
	}
	return err
}

// lack returns the reason for a refusal that err means, or other.
func lack(err error, other wire.RejectReason) wire.RejectReason {
	var (
		limit *ibv.LimitError
		lock  *ibv.MemlockError
	)
	switch {
	case errors.Is(err, link.ErrGone), errors.Is(err, ErrClosed):
		return wire.RejectClosed
	case errors.As(err, &lock), errors.Is(err, ErrNoMemory), errors.Is(err, syscall.ENOMEM):
		return wire.RejectMemory
	case errors.As(err, &limit):
		return wire.RejectMaxConns
	}
	return other
}

// failed frees what a failed attempt has. What the QP took from the SRQ is lost unless it is drained before its end.
func (a *attempt) failed(_ *rdmacm.Conn, err error) {
	switch {
	case a.link != nil:
		a.link.Abandon(err)
		<-a.link.End.Done()
	case a.e != nil:
		a.e.Blocks.Dismiss(a.recvKind)
		a.e.Members.Places.Add(-1)
	}
}

// dial makes a connection to host:port. finish is also that of a dial by TCP that may take place at the same time.
func dial(ctx context.Context, addr string, kind wire.ConnKind, opt *Options, finish *attempts.Finish) (*link.Link,
	error) {
	opt = cmp.Or(opt, &Options{})
	fail := func(err error) (*link.Link, error) { return nil, &ibv.OpError{Op: "dial", Object: addr, Err: err} }
	if err := opt.check(callOf(kind, callDial, callDialStream)); err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, opt.dialTime())
	defer cancel()
	addrs, err := lookUp(ctx, "tcp", addr)
	if err != nil {
		return fail(err)
	}
	one := func(ctx context.Context, to netip.AddrPort) (*link.Link, error) {
		a := &attempt{kind: kind, opt: opt, leases: opt.leases(kind), finish: finish}
		return a.dial(ctx, to)
	}
	l, err := attempts.Dial(ctx, addrs, opt.LocalAddr.Addr(), one, (*link.Link).CloseNow)
	if why := explainReject(err, kind); why != nil {
		return fail(why)
	}
	if err != nil && len(addrs) > 1 {
		return fail(err)
	}
	return l, err
}

// dial makes a connection to an address.
func (a *attempt) dial(ctx context.Context, to netip.AddrPort) (*link.Link, error) {
	o := a.options()
	o.Confirm = func(c *rdmacm.Conn) (err error) {
		if a.peer, _, err = wire.ParseHello(c.PrivateData(), a.kind); err != nil {
			return public(err)
		}
		err = a.finish.Begin(ctx)
		a.last = err == nil
		return err
	}
	_, err := rdmacm.DialAddr(ctx, to, o)
	if a.last {
		a.finish.End(err == nil)
	}
	if err != nil {
		return nil, err
	}
	if err := a.link.Start(a.peer); err != nil {
		return nil, &ibv.OpError{Op: "dial", Object: to.String(), Err: public(err)}
	}
	return a.link, nil
}

// lookUp returns the addresses of host:port.
func lookUp(ctx context.Context, network, addr string) ([]netip.AddrPort, error) {
	list, err := sockaddr.Resolve(ctx, network, addr)
	if bad, is := err.(*sockaddr.Error); is {
		return nil, (*ibv.ArgError)(bad)
	}
	return list, err
}

// explainReject returns why the peer refused, or nil if its private data does not have the reason.
func explainReject(err error, kind wire.ConnKind) error {
	var reject *rdmacm.RejectError
	if !errors.As(err, &reject) {
		return nil
	}
	r, ok := wire.ParseRejection(reject.PrivateData)
	if !ok && reject.Accepted && reject.Reason == rdmacm.RejectConsumer {
		r.Reason, ok = wire.RejectUnfinished, true
	}
	switch {
	case !ok, r.Reason == wire.RejectOther:
		return nil
	case r.Reason == wire.RejectVersion:
		return errors.Join(&VersionError{PeerMin: r.Min, PeerMax: r.Max}, err)
	case r.Reason == wire.RejectKind:
		return errors.Join(&ProtocolError{Frame: "private data", Got: kind.String(), Want: "what the peer listens " +
			"for: Dial goes with Listen, DialStream with ListenStream"}, err)
	}
	return &RejectError{Reason: RejectReason(r.Reason), Err: err}
}
