package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"sync"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/foreign"
	"github.com/pureverbs/pureverbs/internal/life"
)

// Conn is a connection: a queue pair that is ready to use, and the ID it was connected with. In the
// port space UDP it is a queue pair and the peer's address.
//
// It belongs to the caller and is safe for concurrent use. The connection owns its PD and CQs,
// except those that Options supplied. Close ends the connection.
type Conn struct {
	life life.Object // its users are calls of answer, and the handshake after Options.Prepare
	id   *ID
	hub  *hub
	ps   PortSpace

	// Made by setup, before Options.Prepare hands the connection to others.
	pd             *ibv.PD
	sendCQ, recvCQ *ibv.CQ
	qp             *ibv.QP // also under mu
	ownPD          *ibv.PD
	ownCQ          *ibv.CQ
	srq            bool
	left           <-chan struct{} // closed when the call of C ends that the handshake has left, nil without one

	events chan *Event   // only during the handshake
	done   chan struct{} // closed when the connection is over

	mu            sync.Mutex
	peer          ConnParam
	ah            *ibv.AH
	ud            *UDParam
	local, remote netip.AddrPort
	established   bool
	onClose       []func() error
	onDone        []func(error)
	err           error

	disconnectMu   sync.Mutex // held during the disconnect call
	disconnectSent bool       // protected by disconnectMu: the disconnect was sent
}

// handshakeEvents is more than the number of events that a handshake can produce.
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
			verbs.NoteRemoved(c.qp.PD().Device()) // may differ from the ID's device
		}
		c.mu.Unlock()
		if ev.Type == EventDisconnected && c.life.TryEnter() {
			go c.answer()
		}
		return
	}
	if guarded(&c.mu, &c.established) {
		if err := ev.Err(); err != nil {
			c.finish(afterReply(err))
		}
		return
	}
	select {
	case c.events <- ev:
	default:
	}
}

// finish marks the connection as ended. The first reason is kept.
func (c *Conn) finish(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.done)
		for _, f := range c.onDone {
			go foreign.Call(func() { f(err) }, nil)
		}
		c.onDone = nil
	}
}

// inC bounds the number of connections that are in C at a time. Each call holds a thread, and far
// more threads than processors only compete.
var inC = make(chan struct{}, 2*runtime.NumCPU())

// limited runs f, which calls C and does not wait for the peer, within the bound of inC.
func limited(f func() error) error {
	inC <- struct{}{}
	defer func() { <-inC }()
	return f()
}

// slow reports whether the device is one of iWARP: calls of C may wait for the peer's host, and the kernel moves the
// QP.
func (c *Conn) slow() bool { return c.id.cmOnly() }

// limited is for calls that wait for the peer on some transports.
func (c *Conn) limited(f func() error) error {
	if c.slow() {
		return f()
	}
	return limited(f)
}

// answer acknowledges the peer's disconnect and flushes posted work requests.
func (c *Conn) answer() {
	defer c.life.Leave()
	_ = c.limited(func() error { return c.disconnect(true) })
}

// disconnect notifies the peer, once, that the connection has ended. Later callers wait until that is done. With flush,
// posted work requests complete with an error.
func (c *Conn) disconnect(flush bool) error {
	c.disconnectMu.Lock()
	defer c.disconnectMu.Unlock()
	if c.disconnectSent || c.ps.datagram() {
		return nil
	}
	c.disconnectSent = true
	if qp := guarded(&c.mu, &c.qp); flush && qp != nil {
		_ = qp.Modify(&ibv.QPAttr{State: ibv.StateErr}, ibv.MaskState)
	}
	return c.id.Disconnect()
}

// ID returns the connection identifier. Do not close it, and do not read its channel.
func (c *Conn) ID() *ID { return c.id }

// QP returns the queue pair, in the state RTS. The connection owns it.
func (c *Conn) QP() *ibv.QP { return c.qp }

// PD returns the protection domain of the QP, to register memory in. If the connection created the
// PD, its MRs must be closed before the connection, or in a function given to OnClose.
func (c *Conn) PD() *ibv.PD { return c.pd }

// SendCQ returns the CQ of send completions.
func (c *Conn) SendCQ() *ibv.CQ { return c.sendCQ }

// RecvCQ returns the CQ of receive completions.
func (c *Conn) RecvCQ() *ibv.CQ { return c.recvCQ }

// CQ returns the CQ of receive completions. It is also the CQ of send completions, unless Options
// supplied another.
func (c *Conn) CQ() *ibv.CQ { return c.recvCQ }

// PrivateData returns the peer's private data in a buffer of the transport's full size, padded with
// zeros.
func (c *Conn) PrivateData() []byte { return c.Param().PrivateData }

// Param returns the parameters that the peer requested or accepted.
func (c *Conn) Param() ConnParam { return guarded(&c.mu, &c.peer) }

// LocalAddr returns the local address.
func (c *Conn) LocalAddr() netip.AddrPort { return guarded(&c.mu, &c.local) }

// RemoteAddr returns the peer's address. On the listening side Linux omits the zone of a link-local
// address.
func (c *Conn) RemoteAddr() netip.AddrPort { return guarded(&c.mu, &c.remote) }

// Peer returns the destination of datagrams to the peer, for ibv.SendWR. The AH, which the
// connection owns, is nil unless this side dialed in a datagram port space.
func (c *Conn) Peer() (ah *ibv.AH, qpn, qkey uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ud == nil {
		return nil, 0, 0
	}
	return c.ah, c.ud.QPN, c.ud.QKey
}

// OnClose registers f to be run by Close once the QP is destroyed and the device no longer uses its
// memory: the place to close MRs that Prepare registered. Functions run in reverse order. One that
// fails runs again in the next Close. f must not call Close.
func (c *Conn) OnClose(f func() error) {
	c.mu.Lock()
	c.onClose = append(c.onClose, f)
	c.mu.Unlock()
}

// Done returns a channel that is closed when the connection has ended; Err then returns the reason.
func (c *Conn) Done() <-chan struct{} { return c.done }

// OnDone registers f to be run on its own goroutine, with Err's result, when the connection has ended; at once if it
// has already. It spares a program with many connections a goroutine that waits for Done on each.
func (c *Conn) OnDone(f func(err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		err := c.err
		go foreign.Call(func() { f(err) }, nil)
		return
	}
	c.onDone = append(c.onDone, f)
}

// Err returns why the connection has ended, or nil if it has not. The reason is ErrDisconnected,
// ErrDeviceRemoved, ErrClosed or an *EventReadError.
func (c *Conn) Err() error { return guarded(&c.mu, &c.err) }

// Shutdown ends the connection and waits until the peer has acknowledged that. Posted work requests
// complete with an error. Close must still be called.
func (c *Conn) Shutdown(ctx context.Context) error {
	if c.ps.datagram() || !guarded(&c.mu, &c.established) {
		return nil
	}
	if isClosed(c.done) {
		if errors.Is(c.Err(), ErrDisconnected) {
			_ = c.limited(func() error { return c.disconnect(true) })
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
		return &ibv.OpError{Op: "shutdown", Object: c.RemoteAddr().String(), Err: ctx.Err()}
	}
}

// Close ends the connection, notifies the peer and frees what the connection owns. It does not wait for the peer. If
// MRs are open on a PD that the connection owns, Close ends the connection, closes QP and CQ, and returns an
// *ibv.BusyError; call it again after closing the MRs.
//
// Options.Prepare makes the connection known before the handshake is over. Close then ends the handshake, and waits
// until Dial or Accept has noticed: they fail with an error that matches ErrClosed, unless they were about to return.
func (c *Conn) Close() error {
	c.finish(&ibv.OpError{Op: "connection", Object: c.RemoteAddr().String(), Err: ErrClosed})
	c.life.Shut()
	closed, err := c.life.Close(func() error {
		if err := c.limited(c.destroy); err != nil {
			return err
		}
		if err := c.runOnClose(); err != nil {
			return err
		}
		return c.limited(c.release)
	})
	if closed {
		err = c.hub.leave()
	}
	return err
}

// runOnClose runs the functions of OnClose. Those that fail are kept for the next Close, and those after one that does
// not return.
//
// Preconditions: the QP is closed.
func (c *Conn) runOnClose() error {
	c.mu.Lock()
	todo := c.onClose
	c.onClose = nil
	c.mu.Unlock()
	var (
		errs   []error
		failed []func() error
	)
	keep := func(rest []func() error) {
		slices.Reverse(failed)
		c.mu.Lock()
		c.onClose = slices.Concat(rest, failed, c.onClose)
		c.mu.Unlock()
	}
	for i, f := range slices.Backward(todo) {
		var err error
		foreign.Call(func() { err = f() }, func(returned bool) {
			if !returned {
				keep(todo[:i])
			}
		})
		if err != nil {
			errs, failed = append(errs, err), append(failed, f)
		}
	}
	keep(nil)
	return errors.Join(errs...)
}

// destroy notifies the peer and frees the objects that use memory.
func (c *Conn) destroy() error {
	c.mu.Lock()
	established, ah := c.established, c.ah
	c.mu.Unlock()
	if established {
		_ = c.disconnect(false) // closing the ID would notify the peer only after the QP is gone
	}
	var errs []error
	if c.qp != nil {
		errs = append(errs, c.qp.Close())
	}
	if ah != nil {
		errs = append(errs, ah.Close())
	}
	if c.ownCQ != nil {
		errs = append(errs, c.ownCQ.Close())
	}
	return errors.Join(errs...)
}

// release frees the rest. The ID is last: it keeps the device open.
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
