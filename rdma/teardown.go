package rdma

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/ending"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

const drainTime = ending.Most

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
	l.do(l.end.Break(reason))
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
	if errors.Is(err, ErrClosed) {
		return // by the teardown
	}
	l.mu.Lock()
	ending := l.end.Ending()
	l.mu.Unlock()
	if !ending {
		l.e.catchUp(l.end.Done())
	}
	l.fail(err)
}

// failLocked is fail. Data that was received before stays readable.
// Preconditions: l.mu is held.
func (l *link) failLocked(err error) {
	var wc *ibv.WCError
	weak := errors.As(err, &wc) && wc.Status == ibv.WCWRFlushErr || errors.Is(err, syscall.ENOTCONN)
	l.do(l.end.Fail(err, weak))
}

// do takes the steps that follow from a change of the connection's end.
// Preconditions: l.mu is held.
func (l *link) do(d ending.Do) {
	if d == 0 {
		return
	}
	if d&ending.DropInput != 0 {
		l.dropInput()
	}
	if d&ending.DropStaged != 0 {
		l.dropStaged()
	}
	if d&ending.StopOps != 0 {
		l.stopped.Happen()
		if l.ctl != nil {
			l.ctl.tenant.stop()
		}
	}
	if d&ending.WakeReader != 0 {
		l.wakeReader()
	}
	if d&ending.WakeWriter != 0 {
		l.wakeWriter()
	}
	if d&ending.FIN != 0 {
		l.q.DueEnd(sendq.FIN, l.end.FINAux())
	}
	if d&ending.Reset != 0 {
		l.q.SetDue(sendq.FIN, false)
		l.q.DueEnd(sendq.Reset, l.end.ResetAux())
	}
	if d&ending.Pump != 0 {
		l.pump()
	}
	if d&ending.Reset != 0 {
		l.resetting = l.q.Await()
	}
	if d&ending.Linger != 0 {
		l.linger.start(func() { l.fail(errLinger) })
	}
	if d&ending.Teardown != 0 {
		l.linger.stop()
		l.win.account.Stop()
		go l.end.Run(&l.mu, (*teardown)(l))
	}
}

// dropInput drops what was received and not read.
// Preconditions: l.mu is held.
func (l *link) dropInput() {
	for l.in.Len() > 0 {
		l.e.consumed(l.in.Pop().b)
		l.win.took(1)
	}
}

// dropStaged drops what was staged and not posted.
// Preconditions: l.mu is held.
func (l *link) dropStaged() {
	for f, ok := l.q.DropStaged(); ok; f, ok = l.q.DropStaged() {
		l.giveUp(f.Held)
	}
	l.wr.caughtUp()
}

// teardown is a link that ends.
type teardown link

// Await implements ending.Steps, as the other methods do.
func (t *teardown) Await(ch <-chan struct{}, most time.Duration) bool {
	defer t.e.pollMeanwhile()()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-t.e.eng.gone:
	case <-timer.C:
	}
	return false
}

func (t *teardown) Resetting() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.resetting == nil {
		return nil
	}
	return t.resetting.C
}

// Rest waits for the QP's last event. Devices that never raise it are known after the first QP.
func (t *teardown) Rest() {
	if t.port.Unused() {
		return
	}
	most := drainTime / 4
	if t.e.restless.Load() {
		most = drainTime / 100
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	t.e.restless.Store(errors.Is(t.port.Rest(ctx), context.DeadlineExceeded))
}

// Mark posts the marker. The queue may be full until the poller has seen completions.
func (t *teardown) Mark() bool {
	if t.port.Unused() {
		return false
	}
	t.mu.Lock()
	wr := t.q.Posted() + 1
	t.end.Mark(wr, t.e.recvs.marks())
	t.mu.Unlock()
	defer t.e.pollMeanwhile()()
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	needless, err := t.port.Mark(ctx, uint64(wr))
	if err == nil && needless {
		t.e.catchUp(t.e.eng.gone)
		t.mu.Lock()
		t.end.Marked()
		t.mu.Unlock()
	}
	return err == nil
}

func (t *teardown) Forget() { t.e.links.clear((*link)(t)) }

func (t *teardown) CloseQP(drained bool) error {
	drained = drained || t.port.Unused()
	err := t.port.Close()
	if err == nil { // else the device may still use its receives
		t.win.account.Gone(drained)
	}
	return err
}

func (t *teardown) Drain(err error) {
	l := (*link)(t)
	if err == nil {
		l.release(l.q.Posted(), l.q.Done())
	} else {
		l.q.Lose()
		l.finishOps()
	}
	l.dropStaged()
	l.q.EndWaits()
	l.win.account.Shrink(l.win.recv.End())
	l.e.blocks.Retire(&l.wr.sender)
}

func (t *teardown) Over() {
	l := (*link)(t)
	l.wakeReader()
	l.wakeWriter()
	if l.ctl != nil {
		l.ctl.tenant.ended()
	}
	l.mu.Lock()
	l.wr.dropScratch()
	l.mu.Unlock()
	l.leave()
}

// leave is called at the end of the teardown, and when a closed connection holds no frame any more. After both the
// engine may go.
func (l *link) leave() {
	l.mu.Lock()
	last := l.end.Leave()
	l.mu.Unlock()
	if last {
		l.e.remove(l)
	}
}

// abandon ends a connection that was prepared and did not come about. It owns the QP.
func (l *link) abandon(err error) {
	l.mu.Lock()
	l.failLocked(err)
	l.mu.Unlock()
	l.close()
}

// writeError is why nothing can be sent, or nil.
// Preconditions: l.mu is held.
func (l *link) writeError() error {
	switch {
	case l.end.Closed():
		return ErrClosed
	case l.end.WriteShut():
		return errShutWrite
	case l.end.PeerClosed():
		return ErrPeerClosed
	case l.end.Ending():
		return l.reason()
	}
	return nil
}

// reason is why the connection has ended.
// Preconditions: l.mu is held, the connection is ending.
func (l *link) reason() error {
	var p *ProtocolError
	cause, sent, acked := l.end.Cause(), l.q.Posted(), l.q.Acked()
	switch {
	case errors.Is(cause, ErrClosed), errors.Is(cause, ErrNoMemory), errors.As(cause, &p):
		return cause
	case l.end.PeerClosed() && l.end.PeerFIN():
		return ErrPeerClosed
	case isDeviceFault(cause):
		return &DeviceError{Device: l.e.eng.name(), FramesSent: sent, FramesAcked: acked,
			Sent: sent, Acked: acked, Err: cause}
	}
	return &PeerError{Peer: l.remote, FramesSent: sent, FramesAcked: acked,
		Sent: sent, Acked: acked, Err: cause}
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
		if e.forward(ev) {
			continue
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
			l.fail(&deviceFault{errors.New(ev.String())})
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
		l.fail(&deviceFault{err})
	}
	e.failPackets(err, nil)
}
