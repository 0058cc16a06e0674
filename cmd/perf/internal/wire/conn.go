package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Conn is one end of the exchange. It is not safe for concurrent use, except
// Close. Every method but Close returns an *ExchangeError if it fails, and the
// connection is of no use after that. Where there is no exchange it is nil, and
// Leave and Watch do nothing.
type Conn struct {
	c       net.Conn
	early   earlier // what was read before there was a Conn, or during a watch
	role    Role
	timeout time.Duration
	ctx     context.Context
	unhook  func() bool
	gid     bool
	structs bool
	unacked bool // see Unacked
	ours    bool
	version float64
	peer    string
	hooked  chan struct{} // closed when the end of ctx has ended the step in progress
	pulse   pulse
}

// NewConn wraps a connected socket, which it owns from then on. A step that
// takes longer than timeout fails, except those that wait for the end of a run.
// When ctx ends, a step in progress also ends.
func NewConn(ctx context.Context, c net.Conn, role Role, timeout time.Duration) *Conn {
	w := &Conn{c: c, role: role, timeout: timeout, ctx: ctx, peer: c.RemoteAddr().String(), hooked: make(chan struct{})}
	w.unhook = context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)); close(w.hooked) })
	watchDead(c, timeout)
	return w
}

// earlier holds bytes of a connection that were read before.
type earlier []byte

func (e *earlier) take(b []byte) (n int) {
	n = copy(b, *e)
	*e = (*e)[n:]
	return n
}

// full reads all of b.
func (e *earlier) full(c net.Conn, b []byte) (int, error) {
	n := e.take(b)
	m, err := io.ReadFull(c, b[n:])
	return n + m, err
}

// Close closes the socket.
func (w *Conn) Close() error {
	w.unhook()
	err := w.c.Close()
	w.endBeats()
	return err
}

// Peer returns the address of the peer.
func (w *Conn) Peer() string { return w.peer }

func (w *Conn) fail(step string, err error) error {
	if ctxErr := context.Cause(w.ctx); ctxErr != nil {
		err = ctxErr
	}
	return &ExchangeError{w.peer, step, err}
}

// Forever is a limit that bounds nothing.
const Forever time.Duration = 0

// exchange is one step, whose reply may take as long as limit.
func (w *Conn) exchange(step string, out, in []byte, limit time.Duration) error {
	return w.inTurn(step, out, func() error { return w.read(step, in, limit) })
}

// inTurn is one step: the client writes before it reads, the server reads before it writes.
func (w *Conn) inTurn(step string, out []byte, read func() error) error {
	if w.role == Client {
		if err := w.write(step, out); err != nil {
			return err
		}
		return read()
	}
	if err := read(); err != nil {
		return err
	}
	return w.write(step, out)
}

// until sets a deadline; none if t is zero. A connection that is to end has one that is over.
func (w *Conn) until(set func(time.Time) error, t time.Time) {
	set(t)
	if w.halted() { // it may have come to that just before
		set(time.Unix(1, 0))
	}
}

// send writes one message, or a mark.
func (w *Conn) send(b []byte) error {
	w.pulse.mu.Lock()
	defer w.pulse.mu.Unlock()
	w.c.SetWriteDeadline(time.Now().Add(w.timeout))
	if w.ctx.Err() != nil {
		w.c.SetWriteDeadline(time.Unix(1, 0))
	}
	_, err := w.c.Write(b)
	return err
}

func (w *Conn) write(step string, b []byte) error {
	if err := w.send(b); err != nil {
		return w.fail(step, w.explain(err, w.timeout, 0, 0))
	}
	return nil
}

func (w *Conn) read(step string, b []byte, limit time.Duration) error {
	end := time.Time{}
	if limit != Forever {
		end = time.Now().Add(limit)
	}
	n := 0
	first, err := w.next(end)
	if err == nil {
		if b[0] = first; end.IsZero() && w.pulse.on {
			end = time.Now().Add(w.timeout)
		}
		w.until(w.c.SetReadDeadline, end)
		n, err = w.early.full(w.c, b[1:])
		n++
	}
	if err != nil {
		return w.fail(step, w.explain(err, limit, n, len(b)))
	}
	return nil
}

// explain names the usual reasons, and how much had come before.
func (w *Conn) explain(err error, limit time.Duration, got, want int) error {
	part := ""
	if got > 0 {
		part = fmt.Sprintf(" after %d of %d bytes", got, want)
	}
	switch {
	case isDead(err):
		return fmt.Errorf("%w%s, and its host does not reply: %w", ErrSilent, part, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w for %v%s; check that it runs the same test on the same port, "+
			"and was not stopped", ErrSilent, limit, part)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("%w%s; it failed, was stopped, or runs another test (see its output)", ErrClosed, part)
	}
	return err
}
