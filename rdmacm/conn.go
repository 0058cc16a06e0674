package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/life"
)

// Conn is a connection: a queue pair that is ready to use, and the ID that watches
// it. With the port space UDP it is a queue pair and the peer's address.
//
// It belongs to the caller and is safe for concurrent use. The PD and the CQs are
// its own unless Options gave some. Close ends the connection.
type Conn struct {
	life life.Object // its users answer the peer's disconnect
	id   *ID
	hub  *hub
	ps   PortSpace

	pd             *ibv.PD
	sendCQ, recvCQ *ibv.CQ
	qp             *ibv.QP // also under mu
	ah             *ibv.AH
	ownPD          *ibv.PD
	ownCQ          *ibv.CQ
	srq            bool
	byLib          bool // the QP is librdmacm's, which is too old for others

	peer   ConnParam
	ud     *UDParam
	local  netip.AddrPort
	remote netip.AddrPort

	events chan *Event   // of the handshake
	done   chan struct{} // closed when the connection is over

	mu          sync.Mutex
	established bool
	onClose     []func() error
	err         error

	telling sync.Mutex // held while the peer is told
	told    bool       // under telling: the peer knows that it is over
}

// handshakeEvents is more than a handshake can bring.
const handshakeEvents = 8

func newConn(id *ID, h *hub, ps PortSpace) *Conn {
	c := &Conn{id: id, hub: h, ps: ps, events: make(chan *Event, handshakeEvents), done: make(chan struct{})}
	h.serve(id, c)
	return c
}

// handle runs on the hub's goroutine.
func (c *Conn) handle(ev *Event) {
	switch ev.Type {
	case EventTimewaitExit, EventAddrChange:
		return
	case EventDisconnected, EventDeviceRemoval:
		c.finish(ev.Err())
		c.mu.Lock()
		if ev.Type == EventDeviceRemoval && c.qp != nil {
			verbs.NoteRemoved(c.qp.PD().Device()) // it may be another one than the ID's
		}
		c.mu.Unlock()
		if ev.Type == EventDisconnected && c.life.TryEnter() {
			go c.answer()
		}
		return
	}
	c.mu.Lock()
	established := c.established
	c.mu.Unlock()
	if established {
		if err := ev.Err(); err != nil {
			c.finish(err)
		}
		return
	}
	select {
	case c.events <- ev:
	default:
	}
}

// finish marks the connection as over; the first reason stays.
func (c *Conn) finish(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.done)
	}
}

// turns bounds how many connections are in C at a time. Each call there holds a
// thread, and more of them than processors only get in each other's way.
var turns = make(chan struct{}, 2*runtime.NumCPU())

// inTurn runs what calls C and waits for nobody.
func inTurn(f func() error) error {
	turns <- struct{}{}
	defer func() { <-turns }()
	return f()
}

// answer tells the peer that its disconnect was seen, and completes what is
// posted.
func (c *Conn) answer() {
	defer c.life.Leave()
	_ = inTurn(func() error { return c.disconnect(true) })
}

// disconnect tells the peer that the connection is over, once; who comes later waits
// until it is told. flush completes what is posted, with an error.
func (c *Conn) disconnect(flush bool) error {
	c.telling.Lock()
	defer c.telling.Unlock()
	if c.told || c.ps.datagram() {
		return nil
	}
	c.told = true
	c.mu.Lock()
	qp := c.qp
	c.mu.Unlock()
	if flush && qp != nil {
		_ = qp.Modify(&ibv.QPAttr{State: ibv.StateErr}, ibv.MaskState)
	}
	return c.id.Disconnect()
}

// await waits for the next event of the handshake, which must be want.
func (c *Conn) await(ctx context.Context, want EventType) (*Event, error) {
	var ev *Event
	select {
	case ev = <-c.events:
	default:
		select {
		case ev = <-c.events:
		case <-c.done:
			return nil, c.Err()
		case <-ctx.Done():
			return nil, c.late(want, ctx.Err())
		}
	}
	if err := ev.Err(); err != nil {
		return nil, err
	}
	if ev.Type != want {
		return nil, &EventError{Type: ev.Type, Status: ev.Status}
	}
	return ev, nil
}

// late explains why an event did not come in time.
func (c *Conn) late(want EventType, err error) error {
	err = fmt.Errorf("while waiting for the event %v: %w", want, err)
	if !errors.Is(err, context.DeadlineExceeded) || want != EventConnectResponse && want != EventEstablished {
		return err
	}
	dev, e := c.id.Verbs()
	if e != nil {
		return err
	}
	port := c.id.Port()
	attr, e := dev.QueryPort(port)
	switch {
	case e != nil:
		return err
	case attr.State != ibv.PortActive:
		return fmt.Errorf("%w: port %d of %s is %v (look at its cable, at rdma link and at ip link): %w", err, port,
			dev.Name(), attr.State, syscall.ENETDOWN)
	}
	return fmt.Errorf("%w (the peer's program does not answer, or its port is down)", err)
}

// removed prefers to say that the device is gone where a call failed for that: the
// event may come a moment after the EIO.
func (c *Conn) removed(err error) error {
	if !errors.Is(err, syscall.EIO) || errors.Is(err, ErrDeviceRemoved) {
		return err
	}
	late := time.NewTimer(eventDelay)
	defer late.Stop()
	select {
	case <-c.done:
		if gone := c.Err(); errors.Is(gone, ErrDeviceRemoved) {
			return fmt.Errorf("%w: %w", gone, err)
		}
	case <-late.C:
	}
	return err
}

// eventDelay is how long after a failed call its reason may come as an event.
const eventDelay = 200 * time.Millisecond

// setup makes what the connection needs and was not given.
func (c *Conn) setup(opt *Options) error {
	if err := inTurn(func() error { return c.makeQP(opt) }); err != nil {
		return err
	}
	if opt.Prepare != nil {
		return opt.Prepare(c)
	}
	return nil
}

func (c *Conn) makeQP(opt *Options) error {
	dev, err := c.id.Verbs()
	if err != nil {
		return err
	}
	c.pd = opt.PD
	if c.pd == nil {
		if c.pd, err = dev.AllocPD(); err != nil {
			return err
		}
		c.ownPD = c.pd
	} else if have := c.pd.Device(); have != dev && have.Name() != dev.Name() {
		return &ibv.ArgError{Arg: "PD", Got: "one of " + have.Name(), Want: "one of " + dev.Name() +
			", the device that the address leads to"}
	}
	q := opt.QP
	q.Type = ibv.RC
	if c.ps.datagram() {
		q.Type = ibv.UD
	}
	c.srq = q.SRQ != nil
	c.sendCQ, c.recvCQ = opt.SendCQ, opt.RecvCQ
	if c.sendCQ == nil || c.recvCQ == nil {
		n := queueSize(q.MaxSendWR) + queueSize(q.MaxRecvWR)
		cq, err := c.pd.Device().CreateCQ(n, opt.CQ)
		if err != nil {
			return err
		}
		c.ownCQ = cq
		if c.sendCQ == nil {
			c.sendCQ = cq
		}
		if c.recvCQ == nil {
			c.recvCQ = cq
		}
	}
	create := func() (*ibv.QP, error) { return c.pd.CreateQP(c.sendCQ, c.recvCQ, &q) }
	if c.id.lib.BringsUp() != nil {
		c.byLib = true
		create = func() (*ibv.QP, error) { return c.id.CreateQP(c.pd, c.sendCQ, c.recvCQ, &q) }
	}
	qp, err := create()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.qp = qp
	c.mu.Unlock()
	if opt.Prepare == nil || c.byLib {
		return nil // BringUp starts with that, or librdmacm has done it
	}
	return c.id.InitQP(qp)
}

// checkLibrary refuses what cannot be where librdmacm has to bring up the QPs.
func (o *Options) checkLibrary() error {
	lib, err := library()
	if err != nil {
		return err
	}
	why := lib.BringsUp()
	if why == nil {
		return nil
	}
	var errs []error
	need := func(what string) {
		errs = append(errs, fmt.Errorf("%s needs librdmacm of rdma-core v23 or newer: %w", what, why))
	}
	if o.Access != 0 {
		need("Options.Access")
	}
	if o.PD != nil && !lent(o.PD.Device()) {
		need("Options.PD of ibv.Open (one of ID.Verbs or Devices would do)")
	}
	return errors.Join(errs...)
}

// hurryRNR does for a QP of librdmacm's what BringUp does by itself: see
// minRNRTimer.
func (c *Conn) hurryRNR() error {
	if c.qp.Type() != ibv.RC {
		return nil
	}
	return c.qp.Modify(&ibv.QPAttr{State: ibv.StateRTS, MinRNRTimer: minRNRTimer}, ibv.MaskState|ibv.MaskMinRNRTimer)
}

// queueSize is a size in QPOptions with its default.
func queueSize(n int) int {
	switch {
	case n == 0:
		return 128
	case n < 0:
		return 0
	}
	return n
}

// ready notes that the handshake is done.
func (c *Conn) ready() {
	c.local, c.remote = c.id.LocalAddr(), c.id.PeerAddr()
	c.mu.Lock()
	c.established = true
	c.mu.Unlock()
}

// ID is the connection identifier. Do not close it, nor read its channel.
func (c *Conn) ID() *ID { return c.id }

// QP is the queue pair, in the state RTS. It is the connection's.
func (c *Conn) QP() *ibv.QP { return c.qp }

// PD is the protection domain of the QP: memory for it is registered here. MRs of
// a PD that the connection has made must be closed before the connection, or by it:
// see OnClose.
func (c *Conn) PD() *ibv.PD { return c.pd }

// SendCQ is where send completions come.
func (c *Conn) SendCQ() *ibv.CQ { return c.sendCQ }

// RecvCQ is where receive completions come.
func (c *Conn) RecvCQ() *ibv.CQ { return c.recvCQ }

// CQ is where receive completions come, and send completions too unless Options
// gave another CQ for them.
func (c *Conn) CQ() *ibv.CQ { return c.recvCQ }

// PrivateData is what the peer sent along, at its full size: what it did not fill
// is zero.
func (c *Conn) PrivateData() []byte { return c.peer.PrivateData }

// Param is what the peer asked for, or agreed to.
func (c *Conn) Param() ConnParam { return c.peer }

// LocalAddr is this side's address.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr is the peer's address. On the side that listens Linux leaves out the
// zone of a link-local one.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// Peer is where datagrams to the peer go, for ibv.SendWR; nil unless this side
// dialed in a port space of datagrams. The AH is the connection's.
func (c *Conn) Peer() (ah *ibv.AH, qpn, qkey uint32) {
	if c.ud == nil {
		return nil, 0, 0
	}
	return c.ah, c.ud.QPN, c.ud.QKey
}

// OnClose has f run by Close, when the QP is gone and its memory is no longer the
// device's: the place to close MRs that Prepare made. The last comes first. An f
// that fails runs again with the next Close. f must not call Close.
func (c *Conn) OnClose(f func() error) {
	c.mu.Lock()
	c.onClose = append(c.onClose, f)
	c.mu.Unlock()
}

// Done is closed when the connection is over: see Err.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why the connection is over, nil while it is not: it is ErrDisconnected,
// ErrDeviceRemoved or ErrClosed.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Shutdown ends the connection and waits until the peer has seen that; what is
// posted completes with an error. Close comes after it still.
func (c *Conn) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	established := c.established
	c.mu.Unlock()
	if c.ps.datagram() || !established {
		return nil
	}
	if isClosed(c.done) {
		if errors.Is(c.Err(), ErrDisconnected) {
			_ = inTurn(func() error { return c.disconnect(true) })
		}
		return nil
	}
	if err := c.disconnect(true); err != nil && !isClosed(c.done) {
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return &ibv.OpError{Op: "shutdown", Object: c.remote.String(), Err: ctx.Err()}
	}
}

// Close ends the connection, tells the peer and frees what belongs to it; it does
// not wait for the peer. It fails with an *ibv.BusyError while MRs are open on a PD
// of the connection's own: the peer is told, QP and CQ are closed then, and Close
// has to be called again.
func (c *Conn) Close() error {
	c.finish(&ibv.OpError{Op: "connection", Object: c.remote.String(), Err: ErrClosed})
	c.life.Shut()
	closed, err := c.life.Close(func() error {
		if err := inTurn(c.destroy); err != nil {
			return err
		}
		if err := c.tidy(); err != nil {
			return err
		}
		return inTurn(c.release)
	})
	if closed {
		err = c.hub.leave()
	}
	return err
}

// tidy runs the functions of OnClose. What fails is for the next Close.
//
// Preconditions: the QP is closed.
func (c *Conn) tidy() error {
	c.mu.Lock()
	todo := c.onClose
	c.onClose = nil
	c.mu.Unlock()
	var (
		errs   []error
		failed []func() error
	)
	for _, f := range slices.Backward(todo) {
		if err := f(); err != nil {
			errs, failed = append(errs, err), append(failed, f)
		}
	}
	slices.Reverse(failed)
	c.mu.Lock()
	c.onClose = append(failed, c.onClose...)
	c.mu.Unlock()
	return errors.Join(errs...)
}

// destroy tells the peer and frees what uses memory.
func (c *Conn) destroy() error {
	c.mu.Lock()
	established := c.established
	c.mu.Unlock()
	if established {
		_ = c.disconnect(false) // closing the ID would tell the peer, but after the QP is gone
	}
	var errs []error
	if c.qp != nil {
		errs = append(errs, c.qp.Close())
	}
	if c.ah != nil {
		errs = append(errs, c.ah.Close())
	}
	if c.ownCQ != nil {
		errs = append(errs, c.ownCQ.Close())
	}
	return errors.Join(errs...)
}

// release frees the rest. The ID comes last: it keeps the device open.
func (c *Conn) release() error {
	if c.ownPD != nil {
		if err := c.ownPD.Close(); err != nil {
			return err
		}
	}
	return c.id.Close()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
