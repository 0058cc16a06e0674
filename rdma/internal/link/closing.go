package link

import (
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Close begins to close the connection: queued data is still sent, received data is dropped.
func (l *Link) Close() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.End.Closed() {
		return
	}
	l.Opened.Done()
	l.do(l.End.Close())
	if !l.Queue.Sent(sendq.FIN) && !l.End.Ending { // it waits for credits
		l.Queue.SetDue(sendq.Ping, true) // which says that nobody reads here, and confirms what the peer's adapter has
		l.Pump()
	}
	go l.Reader.dropCurrent()
}

// CloseNow closes the connection, and drops what was not sent.
func (l *Link) CloseNow() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	first := !l.End.Closed()
	l.Opened.Done()
	l.do(l.End.CloseNow(wire.ResetClosed))
	l.failLocked(errCloseNow)
	if first {
		go l.Reader.dropCurrent()
	}
}

// CloseWait closes the connection, and waits until the peer's adapter has all that was accepted, or until past is
// closed.
func (l *Link) CloseWait(past <-chan struct{}) error {
	l.Close()
	if l.Linger.Most < 0 {
		return nil
	}
	late := error(nil)
	if !deadline.IsClosed(l.End.Settled()) {
		late = l.settle(past)
	}
	return l.undelivered(late)
}

// settle waits until the end is settled, for as long as the engine allows, or until past is closed. It returns why it
// is not settled.
func (l *Link) settle(past <-chan struct{}) (late error) {
	defer l.Shard.Progress.Meanwhile()()
	l.Mu.Lock()
	ago := time.Duration(l.Shard.Ticks.Load()-l.Alive.Took) * time.Second
	w, most := l.Shard.Engine.Allowance.Begin(l.Linger.Most, ago, l.taken())
	l.Mu.Unlock()
	for late = errLate; most > 0 && late == errLate; {
		timer := time.NewTimer(most)
		select {
		case <-l.End.Settled():
			late = nil
		case <-past:
			late = errDeadline
		case <-timer.C:
		}
		timer.Stop()
		l.Mu.Lock()
		most = w.More(l.taken())
		l.Mu.Unlock()
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if late == errLate && w.Whole() && !l.End.Ending {
		l.failLocked(errLinger) // now, so that nothing is delivered of what Close reports
	}
	w.End(l.taken(), late == nil)
	return late
}

// Stalled is how many connections are starved.
func (e *Shard) Stalled() (n int) {
	for _, l := range e.Members.Append(nil) {
		l.Mu.Lock()
		if l.Starved() && !l.End.Ending {
			n++
		}
		l.Mu.Unlock()
	}
	return n
}

// taken returns a number that changes when the peer takes something: its program, if the next frame waits for that, and
// else its adapter. What the adapter acknowledges while the program reads nothing does not count.
// Preconditions: l.Mu is held.
func (l *Link) taken() uint64 {
	taken := uint64(l.Send.Limit) << 32
	if !l.Starved() {
		taken |= uint64(l.Queue.Acked)
	}
	return taken
}

// undelivered reports what was accepted and is not known to be in the memory of the peer's adapter. late is why that
// was not waited for.
func (l *Link) undelivered(late error) error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	lost := l.Queue.Lost()
	if l.End.Cause == errLinger {
		late = errLate
	}
	e := &Undelivered{Frames: lost.Frames, Bytes: lost.Bytes, Err: late}
	switch {
	case lost.Frames == 0 && (l.End.Delivered || late == nil || l.End.PeerClosed): // that peer need not know
		return nil
	case l.End.PeerClosed:
		e.Err = ErrPeerClosed
	case late == nil:
		e.Err = l.Reason()
	}
	return e
}

// Ended returns why the connection has ended, or nil while it has not.
func (l *Link) Ended() error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if !l.End.Ending {
		return nil
	}
	return l.Reason()
}

// CloseSend sends a FIN after all that was staged. Once is enough, and a peer that has closed needs none, but it is no
// mistake.
func (l *Link) CloseSend() error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err := l.writeError(); err != nil && err != ErrShutWrite && err != ErrPeerClosed {
		return err
	}
	l.do(l.End.CloseWrite())
	return nil
}

// CloseRead ends reading: later data is dropped.
func (l *Link) CloseRead() error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.End.Closed() {
		return ibv.ErrClosed
	}
	l.do(l.End.ShutRead())
	return nil
}

// Abandon ends a connection that was prepared and did not come about. It owns the QP.
func (l *Link) Abandon(err error) {
	l.Fail(err)
	l.Close()
}
