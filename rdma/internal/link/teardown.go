package link

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

const DrainTime = ending.Most

// Protocol ends the connection because of what the peer sent.
// Preconditions: l.Mu is held.
func (l *Link) Protocol(frame, got, want string) {
	l.broken(breach(frame, got, want))
}

// broken ends the connection because of the peer's data, and informs the peer.
// Preconditions: l.Mu is held.
func (l *Link) broken(err error) { l.reset(wire.ResetProtocol, err) }

// reset ends the connection, and informs the peer of the reason.
// Preconditions: l.Mu is held.
func (l *Link) reset(reason uint32, err error) {
	l.do(l.End.Break(reason))
	l.failLocked(err)
}

// Fail ends the connection; err is why.
func (l *Link) Fail(err error) {
	l.Mu.Lock()
	l.failLocked(err)
	l.Mu.Unlock()
}

// disconnected ends the connection after it has handled what had come: a FIN, which means that the peer has closed it.
func (l *Link) disconnected(err error) {
	if errors.Is(err, ibv.ErrClosed) {
		return // by the teardown
	}
	l.Mu.Lock()
	ending := l.End.Ending
	l.Mu.Unlock()
	if !ending {
		l.Shard.Progress.CatchUp(l.End.Done())
	}
	l.Fail(err)
}

// failLocked is fail. Data that was received before stays readable.
// Preconditions: l.Mu is held.
func (l *Link) failLocked(err error) {
	var wc *ibv.WCError
	weak := errors.As(err, &wc) && wc.Status == ibv.WCWRFlushErr || errors.Is(err, syscall.ENOTCONN)
	l.do(l.End.Fail(err, weak))
}

// do takes the steps that follow from a change of the connection's end.
// Preconditions: l.Mu is held.
func (l *Link) do(d ending.Do) {
	if d == 0 {
		return
	}
	if d&ending.DropInput != 0 {
		l.dropInput()
	}
	if d&ending.DropStaged != 0 {
		l.DropStaged()
	}
	if d&ending.StopOps != 0 {
		l.Stopped.Happen()
		if l.Control != nil {
			l.Control.Tenant.Stop()
		}
	}
	if d&ending.WakeReader != 0 {
		l.wakeReader()
	}
	if d&ending.WakeWriter != 0 {
		l.WakeWriter()
	}
	if d&ending.FIN != 0 {
		l.Queue.DueEnd(sendq.FIN, l.End.FINAux())
	}
	if d&ending.Reset != 0 {
		l.Queue.SetDue(sendq.FIN, false)
		l.Queue.DueEnd(sendq.Reset, l.End.ResetAux())
	}
	if d&ending.Pump != 0 {
		l.Pump()
	}
	if d&ending.Reset != 0 {
		l.resetting = l.Queue.Await()
	}
	if d&ending.Linger != 0 {
		l.Linger.start(func() { l.Fail(errLinger) })
	}
	if d&ending.Teardown != 0 {
		l.Linger.stop()
		l.Window.account.Stop()
		go l.End.Run(&l.Mu, (*teardown)(l))
	}
}

// dropInput drops what was received and not read.
// Preconditions: l.Mu is held.
func (l *Link) dropInput() {
	for l.Inbox.Len() > 0 {
		l.Shard.Blocks.Consumed(l.Inbox.Pop().b)
		l.Window.took(1)
	}
}

// DropStaged drops what was staged and not posted.
// Preconditions: l.Mu is held.
func (l *Link) DropStaged() {
	for f, ok := l.Queue.DropStaged(); ok; f, ok = l.Queue.DropStaged() {
		l.GiveUp(f.Held)
	}
	l.Writer.caughtUp()
}

// teardown is a link that ends.
type teardown Link

// Await implements ending.Steps, as the other methods do.
func (t *teardown) Await(ch <-chan struct{}, most time.Duration) bool { return t.Shard.Await(ch, most) }

func (t *teardown) Resetting() <-chan struct{} {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if t.resetting == nil {
		return nil
	}
	return t.resetting.C
}

// Rest waits for the QP's last event. Devices that never raise it are known after the first QP.
func (t *teardown) Rest() {
	if t.Port.Unused() {
		return
	}
	most := DrainTime / 4
	if t.Shard.restless.Load() {
		most = DrainTime / 100
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	t.Shard.restless.Store(errors.Is(t.Port.Rest(ctx), context.DeadlineExceeded))
}

// Mark posts the marker. The queue may be full until the poller has seen completions.
func (t *teardown) Mark() bool {
	if t.Port.Unused() {
		return false
	}
	t.Mu.Lock()
	wr := t.Queue.Posted + 1
	t.End.Mark(wr, t.Shard.Receives.marks())
	t.Mu.Unlock()
	defer t.Shard.Progress.Meanwhile()()
	ctx, cancel := context.WithTimeout(context.Background(), DrainTime)
	defer cancel()
	needless, err := t.Port.Mark(ctx, uint64(wr))
	if err == nil && needless {
		t.Shard.Progress.CatchUp(t.Shard.Engine.Gone.Done())
		t.Mu.Lock()
		t.End.Marked()
		t.Mu.Unlock()
	}
	return err == nil
}

func (t *teardown) Forget() { t.Shard.links.clear((*Link)(t)) }

func (t *teardown) CloseQP(drained bool) error {
	drained = drained || t.Port.Unused()
	err := t.Port.Close()
	if err == nil { // else the device may still use its receives
		t.Window.account.Gone(drained)
	}
	return err
}

func (t *teardown) Drain(err error) {
	l := (*Link)(t)
	if err == nil {
		l.Release(l.Queue.Posted, l.Queue.Done)
	} else {
		l.Queue.Lose()
		l.finishOps()
	}
	l.DropStaged()
	l.Queue.EndWaits()
	l.Window.account.Shrink(l.Window.Recv.End())
	l.Shard.Blocks.Retire(&l.Writer.sender)
}

func (t *teardown) Over() {
	l := (*Link)(t)
	l.wakeReader()
	l.WakeWriter()
	if l.Control != nil {
		l.Control.Tenant.Ended()
	}
	l.Mu.Lock()
	l.Writer.dropScratch()
	l.Mu.Unlock()
	l.leave()
}

// leave is called at the end of the teardown, and when a closed connection holds no frame any more. After both the
// engine may go.
func (l *Link) leave() {
	l.Mu.Lock()
	last := l.End.Leave()
	l.Mu.Unlock()
	if last {
		l.Shard.remove(l)
	}
}

// Await waits for ch, for a device that is gone, or for this time, while completions are handled. It reports whether
// ch was closed or had a token.
func (e *Shard) Await(ch <-chan struct{}, most time.Duration) bool {
	defer e.Progress.Meanwhile()()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-e.Engine.Gone.Done():
	case <-timer.C:
	}
	return false
}

// watch reads the device's events.
func (e *Engine) watch(ctx context.Context) {
	if e.Options.OnEvent != nil {
		e.events = make(chan ibv.AsyncEvent, eventsMost)
		e.done.Go(e.callOnEvent)
	}
	for {
		ev, err := e.Device.AsyncEvent(ctx)
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
				e.eachPacket(ev.QP, func(c *PacketSocket) { c.failLocked(errors.New(ev.String())) })
			}
			continue
		}
		switch ev.Type {
		case ibv.EventQPFatal:
			l.Fail(&DeviceFault{Err: errors.New(ev.String())})
		case ibv.EventQPReqErr, ibv.EventQPAccessErr:
			l.Fail(breach("remote access", ev.Type.String(), "what leases permit"))
		}
	}
}

// failAll ends all connections: the device is gone.
func (e *Engine) failAll(err error) {
	e.Gone.Happen()
	for _, l := range e.all() {
		l.Fail(&DeviceFault{Err: err})
	}
	e.eachPacket(nil, func(c *PacketSocket) { c.failLocked(err) })
}
