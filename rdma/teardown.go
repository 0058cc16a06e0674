package rdma

import (
	"context"
	"errors"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// protocol ends the connection because of what the peer sent.
// Preconditions: l.mu is held.
func (l *link) protocol(frame, got, want string) {
	l.broken(&ProtocolError{Frame: frame, Got: got, Want: want})
}

// broken ends the connection because of the peer's data, and informs the peer.
// Preconditions: l.mu is held.
func (l *link) broken(err error) { l.reset(wire.ResetProtocol, err) }

// reset ends the connection, and informs the peer of the reason.
// Preconditions: l.mu is held.
func (l *link) reset(reason uint32, err error) {
	if l.ending {
		return
	}
	l.dropStaged()
	l.q.DueEnd(sendq.Reset, reason)
	l.pump()
	l.resetSent = l.q.Await()
	l.failLocked(err)
}

// fail ends the connection; err is why.
func (l *link) fail(err error) {
	l.mu.Lock()
	l.failLocked(err)
	l.mu.Unlock()
}

// disconnected ends the connection after it has handled what had come: a FIN, which means that the peer has closed it.
func (l *link) disconnected(err error) {
	l.mu.Lock()
	ending := l.ending
	l.mu.Unlock()
	if !ending {
		l.e.catchUp(l.done)
	}
	l.fail(err)
}

// failLocked is fail. Data that was received before stays readable.
// Preconditions: l.mu is held.
func (l *link) failLocked(err error) {
	if l.ending {
		l.explain(err)
		return
	}
	l.ending = true
	l.cause = err
	l.stopOps()
	l.wakeWriter()
	go l.teardown()
}

// explain replaces a meaningless cause: work requests were flushed, and err is why.
// Preconditions: l.mu is held.
func (l *link) explain(err error) {
	var wc *ibv.WCError
	var p *ProtocolError
	if !l.drained && errors.As(l.cause, &wc) && wc.Status == ibv.WCWRFlushErr && errors.As(err, &p) {
		l.cause = err
	}
}

// teardown ends the connection in the order that loses no block. Receives of the QP that were taken
// from the SRQ complete before its last event, and that is before the marker.
func (l *link) teardown() {
	l.mu.Lock()
	reset := l.resetSent
	l.mu.Unlock()
	if reset != nil {
		l.await(reset.C, drainTime)
	}
	l.e.rest(l)
	drained := l.mark() && l.await(l.marker, drainTime)
	l.e.links.clear(l) // before another QP can have the number
	err := l.cm.Close()
	if err == nil { // else the device may still use its receives
		l.account.Gone(drained)
	}
	l.mu.Lock()
	l.drained = true
	l.dropStaged()
	if l.closeErr = err; err == nil { // else the device may still use what is under way
		l.release(l.q.Posted(), l.q.Done())
	} else {
		l.q.Lose()
		l.finishOps()
	}
	granted := l.recv.End()
	l.q.EndWaits()
	l.mu.Unlock()
	l.account.Shrink(granted)
	close(l.done)
	l.wakeReader()
	l.wakeWriter()
	l.endLeases()
	l.over()
}

// over is called at the end of teardown, and when a closed connection holds no frame any more.
// After both the engine may go.
func (l *link) over() {
	if l.open.Add(-1) == 0 {
		l.e.remove(l)
	}
}

// await waits for ch, the end of the device, or a while. It reports whether ch was closed.
func (l *link) await(ch <-chan struct{}, most time.Duration) bool {
	defer l.e.pollMeanwhile()()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-l.e.eng.gone:
	case <-timer.C:
	}
	return false
}

// rest moves the QP to ERR, and waits for its last event. Devices that never raise it are known after the first QP.
func (e *shard) rest(l *link) {
	most := drainTime / 4
	if e.restless.Load() {
		most = drainTime / 100
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	e.restless.Store(l.qp.Rest(ctx) != nil)
}

// mark posts a work request whose completion follows all others of the QP, and reports whether it
// could. The queue may be full until the poller has seen completions.
func (l *link) mark() bool {
	l.mu.Lock()
	l.markerWR, l.markerSent = l.q.Posted()+1, true
	l.mu.Unlock()
	defer l.e.pollMeanwhile()()
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	_, err := l.qp.Mark(ctx, uint64(l.markerWR))
	return err == nil
}

// close closes the connection: queued data is still sent, received data is dropped.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed, l.shutRead = true, true
	l.shut.Store(true)
	l.wakeReader()
	l.wakeWriter()
	l.dropInput()
	l.stopOps()
	go l.dropCurrent()
	if l.ending {
		return
	}
	if l.q.Sent(sendq.FIN) { // by CloseWrite: this one carries more
		l.finAcked = make(chan struct{})
	}
	l.q.DueEnd(sendq.FIN, wire.FINClosed)
	if l.peerDone {
		l.dropStaged()
	}
	l.pump()
	go l.linger(l.finAcked)
}

// linger ends a closed connection when the peer has everything, or after a while.
func (l *link) linger(finAcked <-chan struct{}) {
	defer l.e.pollMeanwhile()()
	timer := time.NewTimer(lingerTime)
	defer timer.Stop()
	select {
	case <-finAcked:
	case <-l.done:
	case <-timer.C:
	}
	l.fail(ErrClosed)
}

// dropCurrent drops the frame that a reader has begun. Readers no longer begin another.
func (l *link) dropCurrent() {
	l.readTurn <- struct{}{}
	if l.partial.m != nil {
		l.dropPartial()
	}
	if l.current.b != nil {
		l.finish()
	}
	leave(l.readTurn)
	l.over()
}

// writeError is why nothing can be sent, or nil.
// Preconditions: l.mu is held.
func (l *link) writeError() error {
	switch {
	case l.closed:
		return ErrClosed
	case l.q.Ending():
		return errShutWrite
	case l.peerDone:
		return ErrPeerClosed
	case l.ending:
		return l.reason()
	}
	return nil
}

// reason is why the connection has ended.
// Preconditions: l.mu is held, l.ending.
func (l *link) reason() error {
	var p *ProtocolError
	switch {
	case errors.Is(l.cause, ErrClosed), errors.Is(l.cause, ErrNoMemory), errors.As(l.cause, &p):
		return l.cause
	case l.peerDone:
		return ErrPeerClosed
	}
	return &PeerError{Peer: l.remote, Sent: l.q.Posted(), Acked: l.q.Acked(), Err: l.cause}
}

var errShutWrite error = brokenPipe("writing was closed")

// watch reads the device's events.
func (e *Engine) watch(ctx context.Context) {
	for {
		ev, err := e.dev.AsyncEvent(ctx)
		if err != nil {
			if ctx.Err() == nil {
				e.failAll(err)
			}
			return
		}
		switch ev.Type {
		case ibv.EventCQErr, ibv.EventSRQErr, ibv.EventDeviceFatal:
			e.failAll(errors.New(ev.String()))
		}
		if ev.QP == nil {
			continue
		}
		l := e.link(ev.QP.Num())
		if l == nil {
			if ev.Type == ibv.EventQPFatal {
				e.failPackets(errors.New(ev.String()), ev.QP)
			}
			continue
		}
		switch ev.Type {
		case ibv.EventQPFatal:
			l.fail(errors.New(ev.String()))
		case ibv.EventQPReqErr, ibv.EventQPAccessErr:
			l.fail(&ProtocolError{Frame: "remote access", Got: ev.Type.String(), Want: "what leases permit"})
		}
	}
}

// failAll ends all connections: the device is gone.
func (e *Engine) failAll(err error) {
	e.mu.Lock()
	if !e.isGone {
		e.isGone = true
		close(e.gone)
	}
	e.mu.Unlock()
	for _, l := range e.all() {
		l.fail(err)
	}
	e.failPackets(err, nil)
}
