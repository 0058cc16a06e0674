package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
)

// Marks are single bytes between two messages, by two ends that agreed on them with their parameters. No message
// begins with one: keys begin with a digit of text or with a zero, numbers and figures are far from that large.
const (
	// Heartbeat shows that the end is alive. One that waits to be read may replace others behind it.
	Heartbeat = 0xfe
	goodbye   = 0xfd // the end was interrupted
)

// An end sends so many heartbeats in the time after which the peer gives up, and no more often than leastBeat.
const (
	beats     = 4
	leastBeat = 20 * time.Millisecond
)

// pulse holds the state of the heartbeats that an end sends, and of those that it expects.
type pulse struct {
	on   bool
	mu   sync.Mutex  // of what is written
	stop func()      // ends the heartbeats, and waits until the last one is sent
	halt atomic.Bool // the watch is to end
}

// startBeats sends heartbeats from now on, often enough for a peer that gives up after limit.
func (w *Conn) startBeats(limit time.Duration) {
	failed := false // the next step, or the watch, will see why
	w.pulse.on, w.pulse.stop = true, sync.OnceFunc(tick.Every(max(limit/beats, leastBeat), func() {
		failed = failed || w.ctx.Err() != nil || w.send([]byte{Heartbeat}) != nil
	}))
}

// endBeats ends the heartbeats and waits until the last one is sent.
func (w *Conn) endBeats() {
	if w.pulse.on {
		w.pulse.stop()
	}
}

// next returns the first byte of the peer's next message, which has to come before end if that is not zero. The peer
// has to be alive until then.
func (w *Conn) next(end time.Time) (byte, error) {
	if !w.pulse.on {
		return w.readByte(end)
	}
	for {
		b, err := w.hear(end)
		switch {
		case err != nil:
			return 0, err
		case b == goodbye:
			return 0, ErrInterrupted
		case b != Heartbeat:
			return b, nil
		}
	}
}

// hear reads one byte, a mark or the beginning of a message. A deadline that passes shows only that nothing has been
// read: if this process was stopped meanwhile, there may be heartbeats. So it has a second one.
func (w *Conn) hear(end time.Time) (byte, error) {
	now := time.Now()
	for _, at := range []time.Time{now.Add(w.timeout * (beats - 1) / beats), {}} {
		if at.IsZero() {
			at = time.Now().Add(w.timeout / beats)
		}
		late := !end.IsZero() && end.Before(at)
		if late {
			at = end
		}
		b, err := w.readByte(at)
		if late || !errors.Is(err, os.ErrDeadlineExceeded) || w.halted() {
			return b, err
		}
	}
	return 0, fmt.Errorf("%w for %v, nor a heartbeat; check that it can be reached, and was not stopped", ErrSilent,
		w.timeout)
}

func (w *Conn) readByte(end time.Time) (byte, error) {
	var b [1]byte
	if w.early.take(b[:]) > 0 {
		return b[0], nil
	}
	w.until(w.c.SetReadDeadline, end)
	for {
		if n, err := w.c.Read(b[:]); n > 0 || err != nil {
			if n > 0 {
				err = nil
			}
			return b[0], err
		}
	}
}

// halted reports whether what reads is to end, whatever its deadline.
func (w *Conn) halted() bool { return w.pulse.halt.Load() || w.ctx.Err() != nil }

// watchMarks is Watch for a peer that sends heartbeats.
func (w *Conn) watchMarks(gone func(error), spoke func()) (stop func()) {
	if len(w.early) > 0 {
		spoke()
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b, err := w.next(time.Time{})
		switch {
		case err == nil:
			w.early = earlier{b}
			spoke()
		case errors.Is(err, ErrInterrupted), errors.Is(err, ErrSilent):
			gone(w.fail("watch", err))
		case w.halted():
		default:
			gone(w.leftEarly(err))
		}
	}()
	return func() {
		w.pulse.halt.Store(true)
		w.c.SetReadDeadline(time.Unix(1, 0))
		<-done
		w.pulse.halt.Store(false)
	}
}

// Leave tells the peer that this end was interrupted, and waits for at most limit until the peer has left too: until
// then it may send to queue pairs of this end.
func (w *Conn) Leave(limit time.Duration) {
	if w == nil || !w.pulse.on {
		return
	}
	w.endBeats()
	if !w.unhook() {
		<-w.hooked
	}
	w.c.SetDeadline(time.Now().Add(limit))
	if _, err := w.c.Write([]byte{goodbye}); err != nil {
		return
	}
	var b [1]byte
	for {
		if n, err := w.c.Read(b[:]); err != nil || n == 1 && b[0] == goodbye {
			return
		}
	}
}

// Outlive lets the exchange go on although the context of the Conn has ended: a peer without heartbeats learns from the
// steps at the end of a test that the test is over.
func (w *Conn) Outlive() {
	if !w.unhook() {
		<-w.hooked
	}
	w.ctx, w.unhook = context.Background(), func() bool { return true }
}

// watchDead has the kernel end a TCP connection whose peer's host is gone: without heartbeats nothing else shows it
// while no message is due.
func watchDead(c net.Conn, limit time.Duration) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	k := keepAlive(limit)
	t.SetKeepAliveConfig(k)
	setUserTimeout(t, limit)
}

// keepAlive returns when the kernel asks the peer's host, in whole seconds: after half of the limit, and then often
// enough that the connection ends when the limit is over.
func keepAlive(limit time.Duration) net.KeepAliveConfig {
	second := func(d time.Duration) time.Duration { return max(d.Truncate(time.Second), time.Second) }
	k := net.KeepAliveConfig{Enable: true, Idle: min(second(limit/2), 32767*time.Second)}
	k.Interval = min(second(limit/8), 32767*time.Second)
	k.Count = max(1, min(int((limit-k.Idle)/k.Interval), 127))
	return k
}
