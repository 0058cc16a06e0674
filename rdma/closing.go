package rdma

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// close begins to close the connection: queued data is still sent, received data is dropped.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end.Closed() {
		return
	}
	l.opened.Done()
	l.do(l.end.Close())
	if !l.q.Sent(sendq.FIN) && !l.end.Ending() { // it waits for credits
		l.q.SetDue(sendq.Ping, true) // which says that nobody reads here, and confirms what the peer's adapter has
		l.pump()
	}
	go l.rd.dropCurrent()
}

// closeNow closes the connection, and drops what was not sent.
func (l *link) closeNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.end.Closed()
	l.opened.Done()
	l.do(l.end.CloseNow(wire.ResetClosed))
	l.failLocked(errCloseNow)
	if first {
		go l.rd.dropCurrent()
	}
}

// closeWait closes the connection, and waits until the peer's adapter has all that was accepted, or until past is
// closed.
func (l *link) closeWait(past <-chan struct{}) error {
	l.close()
	if l.linger.most < 0 {
		return nil
	}
	late := error(nil)
	if !deadline.IsClosed(l.end.Settled()) {
		late = l.settle(past)
	}
	return l.undelivered(late)
}

// settle waits until the end is settled, for as long as the engine allows, or until past is closed. It returns why it
// is not settled.
func (l *link) settle(past <-chan struct{}) (late error) {
	defer l.e.pollMeanwhile()()
	l.mu.Lock()
	ago := time.Duration(l.e.ticks.Load()-l.alive.Took) * time.Second
	w, most := l.e.eng.allowance.Begin(l.linger.most, ago, l.taken())
	l.mu.Unlock()
	for late = errLate; most > 0 && late == errLate; {
		timer := time.NewTimer(most)
		select {
		case <-l.end.Settled():
			late = nil
		case <-past:
			late = errDeadline
		case <-timer.C:
		}
		timer.Stop()
		l.mu.Lock()
		most = w.More(l.taken())
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if late == errLate && w.Whole() && !l.end.Ending() {
		l.failLocked(errLinger) // now, so that nothing is delivered of what Close reports
	}
	w.End(l.taken(), late == nil)
	return late
}

// stalled is how many connections are starved.
func (e *shard) stalled() (n int) {
	for _, l := range e.members.append(nil) {
		l.mu.Lock()
		if l.starved() && !l.end.Ending() {
			n++
		}
		l.mu.Unlock()
	}
	return n
}

// taken returns a number that changes when the peer takes something: its program, if the next frame waits for that, and
// else its adapter. What the adapter acknowledges while the program reads nothing does not count.
// Preconditions: l.mu is held.
func (l *link) taken() uint64 {
	taken := uint64(l.send.Limit()) << 32
	if !l.starved() {
		taken |= uint64(l.q.Acked())
	}
	return taken
}

// undelivered reports what was accepted and is not known to be in the memory of the peer's adapter. late is why that
// was not waited for.
func (l *link) undelivered(late error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.q.Lost()
	if l.end.Cause() == errLinger {
		late = errLate
	}
	e := &UndeliveredError{Frames: lost.Frames, Bytes: lost.Bytes, Err: late}
	switch {
	case lost.Frames == 0 && (l.end.Delivered() || late == nil || l.end.PeerClosed()): // that peer need not know
		return nil
	case l.end.PeerClosed():
		e.Err = ErrPeerClosed
	case late == nil:
		e.Err = l.reason()
	}
	if errors.Is(e.Err, ErrClosed) || errors.Is(e.Err, net.ErrClosed) {
		e.Err = errors.New(e.Err.Error()) // programs ignore ErrClosed after Close
	}
	return e
}

// fault returns an error of a method for the program.
func (l *link) fault(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case err == io.EOF, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return &ibv.OpError{Op: op, Object: "connection to " + l.remote.String(), Err: err}
}

// ended returns why the connection has ended, or nil while it has not.
func (l *link) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.end.Ending() {
		return nil
	}
	return l.reason()
}

// closeSend sends a FIN after all that was staged. Once is enough, and a peer that has closed needs none, but it is no
// mistake.
func (l *link) closeSend() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.writeError(); err != nil && err != errShutWrite && err != ErrPeerClosed {
		return err
	}
	l.do(l.end.CloseWrite())
	return nil
}
