//go:build linux

package rules

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma"
	"github.com/pureverbs/pureverbs/rdmacm"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// host makes what a call needs. It is closed when the call's test ends.
type host struct {
	*testing.T
	rxe testutil.RXE
	ctx context.Context
}

func (h *host) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// closes closes an object when the test ends, unless the call has closed it.
func (h *host) closes(c interface{ Close() error }) {
	h.Cleanup(func() {
		if err := c.Close(); err != nil {
			h.Errorf("close: %v", err)
		}
	})
}

// end is one of two queue pairs.
type end struct {
	dev *ibv.Device
	pd  *ibv.PD
	cq  *ibv.CQ
	qp  *ibv.QP
	at  ibv.Endpoint
}

func (h *host) end(i int, typ ibv.QPType) *end {
	h.Helper()
	dev, err := ibv.Open(h.rxe.Dev[i])
	h.ok(err)
	h.closes(dev)
	e := &end{dev: dev}
	e.pd, e.cq = h.pdcq(dev)
	e.qp, err = e.pd.CreateQP(e.cq, e.cq, &ibv.QPOptions{Type: typ})
	h.ok(err)
	h.closes(e.qp)
	e.at, err = e.qp.Endpoint(h.rxe.Port, h.rxe.GIDs[i])
	h.ok(err)
	return e
}

// pair returns two queue pairs that are not connected.
func (h *host) pair(typ ibv.QPType) (a, b *end) { return h.end(0, typ), h.end(1, typ) }

// pdcq makes a protection domain, which the call may close, and a completion queue.
func (h *host) pdcq(dev *ibv.Device) (*ibv.PD, *ibv.CQ) {
	h.Helper()
	pd, err := dev.AllocPD()
	h.ok(err)
	h.closes(pd)
	cq, err := dev.CreateCQ(64, nil)
	h.ok(err)
	h.closes(cq)
	return pd, cq
}

func (h *host) id(ps rdmacm.PortSpace) *rdmacm.ID {
	h.Helper()
	ch, err := rdmacm.NewEventChannel()
	h.ok(err)
	h.closes(ch)
	id, err := ch.CreateID(ps)
	h.ok(err)
	h.closes(id)
	return id
}

// bound returns an ID on the first device.
func (h *host) bound(ps rdmacm.PortSpace) (*rdmacm.ID, *ibv.Device) {
	h.Helper()
	id := h.id(ps)
	h.ok(id.Bind(netip.MustParseAddrPort(h.rxe.IP[0] + ":0")))
	dev, err := id.Verbs()
	h.ok(err)
	return id, dev
}

// next returns the next event of an ID, which is of a type.
func (h *host) next(id *rdmacm.ID, want rdmacm.EventType) *rdmacm.Event {
	h.Helper()
	ev, err := id.Channel().Event(h.ctx)
	h.ok(err)
	if ev.Type != want {
		h.Fatalf("%v, want %v", ev, want)
	}
	return ev
}

// routed returns an ID that is ready to connect.
func (h *host) routed() *rdmacm.ID {
	h.Helper()
	id := h.id(rdmacm.PortSpaceTCP)
	h.ok(id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort(h.rxe.IP[1]+":9"), testutil.Patience))
	h.next(id, rdmacm.EventAddrResolved)
	h.ok(id.ResolveRoute(testutil.Patience))
	h.next(id, rdmacm.EventRouteResolved)
	return id
}

func (h *host) group() ibv.GID {
	g, err := ibv.ParseGID("::ffff:239.1.2.8")
	h.ok(err)
	if h.rxe.IB {
		g = ibv.GID{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 15: 8}
	}
	return g
}

func (h *host) groupLID() uint16 {
	if h.rxe.IB {
		return 0xc001
	}
	return 0
}

// join joins a group.
func (h *host) join(id *rdmacm.ID) *rdmacm.Event {
	h.Helper()
	h.ok(id.JoinMulticast(netip.MustParseAddr("239.1.2.9"), rdmacm.JoinFullMember))
	return h.next(id, rdmacm.EventMulticastJoin)
}

func (h *host) dialCM(addr string, opt *rdmacm.Options) error {
	c, err := rdmacm.Dial(h.ctx, addr, opt)
	if err == nil {
		err = c.Close()
	}
	return err
}

func (h *host) listenCM(addr string, opt *rdmacm.Options) error {
	l, err := rdmacm.Listen(h.ctx, addr, opt)
	if err == nil {
		err = l.Close()
	}
	return err
}

func (h *host) dial(addr string, opt *rdma.Options) error {
	c, err := rdma.Dial(h.ctx, addr, opt)
	if err == nil {
		err = c.Close()
	}
	return err
}

func (h *host) listen(addr string, opt *rdma.Options) error {
	l, err := rdma.Listen(h.ctx, addr, opt)
	if err == nil {
		err = l.Close()
	}
	return err
}

func (h *host) socket(d rsocket.Domain) *rsocket.Socket {
	h.Helper()
	s, err := rsocket.New(d, rsocket.Stream)
	h.ok(err)
	h.closes(s)
	return s
}

// taken returns an address of the first device with a port that a listener on a wildcard has.
func (h *host) taken(network string) string {
	h.Helper()
	ps := rdmacm.PortSpaceTCP
	if network == "udp" {
		ps = rdmacm.PortSpaceUDP
	}
	id := h.id(ps)
	h.ok(id.Bind(netip.MustParseAddrPort("0.0.0.0:0")))
	h.ok(id.Listen(1))
	return fmt.Sprintf("%s:%d", h.rxe.IP[0], id.SrcPort())
}

// at returns the port of addr at another host.
func at(host string, addr fmt.Stringer) string {
	return netip.AddrPortFrom(netip.MustParseAddr(host), netip.MustParseAddrPort(addr.String()).Port()).String()
}

// refused returns an error that has "refused by test" if err means that the peer refused.
func (h *host) refused(err error) error {
	if errors.Is(err, rdmacm.ErrRejected) || errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("refused by test: %w", err)
	}
	return err
}

// request has a peer dial, and f reply to its request, which is closed afterwards.
func (h *host) request(opt *rdmacm.Options, f func(r *rdmacm.Request) error) error {
	h.Helper()
	l, err := rdmacm.Listen(h.ctx, h.rxe.IP[1]+":0", nil)
	h.ok(err)
	defer l.Close()
	ctx, cancel := context.WithCancel(h.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := rdmacm.DialAddr(ctx, l.Addr(), opt)
		if err == nil {
			_ = c.Close()
		}
	}()
	defer func() { cancel(); <-done }()
	r, err := l.Next(h.ctx)
	h.ok(err)
	defer func() { _ = r.Reject(nil) }()
	return f(r)
}

// withdrawn has f reply to a request whose sender has given up.
func (h *host) withdrawn(f func(r *rdmacm.Request) error) error {
	h.Helper()
	l, err := rdmacm.Listen(h.ctx, h.rxe.IP[1]+":0", nil)
	h.ok(err)
	defer l.Close()
	ctx, cancel := context.WithCancel(h.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = rdmacm.DialAddr(ctx, l.Addr(), nil)
	}()
	r, err := l.Next(h.ctx)
	h.ok(err)
	defer func() { _ = r.Reject(nil) }()
	cancel()
	<-done
	// The kernel learns of it by a message.
	for end := time.Now().Add(testutil.Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, _, err := r.ID().QPAttr(ibv.StateRTR); err != nil {
			return f(r)
		}
	}
	return errors.New("the request is still there")
}

// qpOf makes a queue pair on the device of a request.
func (h *host) qpOf(r *rdmacm.Request) *ibv.QP {
	h.Helper()
	dev, err := r.ID().Verbs()
	h.ok(err)
	pd, err := dev.AllocPD()
	h.ok(err)
	h.closes(pd)
	cq, err := dev.CreateCQ(16, nil)
	h.ok(err)
	h.closes(cq)
	qp, err := pd.CreateQP(cq, cq, nil)
	h.ok(err)
	h.closes(qp)
	return qp
}

// windowed has f change memory that a window is bound to.
func (h *host) windowed(f func(mr *ibv.MR) error) error {
	h.Helper()
	a, b := h.pair(ibv.RC)
	h.ok(a.qp.Connect(b.at, nil))
	mr, err := a.pd.AllocMR(4096, ibv.LocalWrite|ibv.MWBind, nil)
	h.ok(err)
	h.closes(mr)
	mw, err := a.pd.AllocMW(ibv.MWType1)
	h.ok(err)
	h.closes(mw)
	err = a.qp.BindMW(1, ibv.Signaled, &ibv.BindMW{MW: mw, MR: mr, Addr: mr.Addr(), Length: 64, Access: ibv.RemoteRead})
	if errors.Is(err, ibv.ErrNotSupported) { // a libmlx5 that cannot: the rule has nothing to break
		return &ibv.BusyError{}
	}
	h.ok(err)
	var wc [1]ibv.WC
	if _, err := a.cq.Wait(h.ctx, wc[:]); err != nil || wc[0].Err() != nil {
		h.Fatal(err, wc[0].Err())
	}
	return f(mr)
}

// connect connects a socket, and waits for the result.
func (h *host) connect(s *rsocket.Socket, to netip.AddrPort) error {
	err := s.Connect(to)
	for errors.Is(err, syscall.EINPROGRESS) && h.ctx.Err() == nil {
		time.Sleep(time.Millisecond)
		err = s.ConnectError()
	}
	return err
}

// rsocketLoopback connects to a socket that listens on a loopback address, by another address of the host. The error is
// ECONNREFUSED if nobody accepts the connection.
func (h *host) rsocketLoopback() error {
	h.Helper()
	l, c := h.socket(rsocket.DomainINET), h.socket(rsocket.DomainINET)
	h.ok(l.Bind(netip.MustParseAddrPort("127.0.0.1:0")))
	h.ok(l.Listen(4))
	to, err := l.LocalAddr()
	h.ok(err)
	if err := c.Connect(netip.AddrPortFrom(netip.MustParseAddr(h.rxe.IP[1]), to.Port())); !errors.Is(err,
		syscall.EINPROGRESS) {
		h.ok(err)
	}
	for end := time.Now().Add(testutil.Patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s, from, err := l.Accept()
		if err == nil {
			_ = s.Close()
			return fmt.Errorf("a connection from %v", from)
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return err
		}
		if err := c.ConnectError(); errors.Is(err, syscall.ENOTCONN) {
			return fmt.Errorf("%w: the listener has closed it", syscall.ECONNREFUSED)
		} else if err != nil && !errors.Is(err, syscall.EINPROGRESS) {
			return err
		}
	}
	return errors.New("neither accepted nor refused")
}
