package rdma

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// TestLost_NotClosed loses data in each way. Programs ignore net.ErrClosed after Close, so no error that says so may
// match it, or have its text.
func TestLost_NotClosed(t *testing.T) {
	for name, lose := range map[string]func(l, peer *link.Link) error{
		"Linger": func(l, _ *link.Link) error {
			l.Linger.Most = time.Millisecond
			return l.CloseWait(nil)
		},
		"Linger, again": func(l, _ *link.Link) error {
			l.Linger.Most = time.Millisecond
			_ = l.CloseWait(nil)
			<-l.End.Done()
			return l.CloseWait(nil)
		},
		"the shared time is over": func(l, _ *link.Link) error {
			for range 100 { // they have waited in vain
				w, _ := l.Shard.Engine.Allowance.Begin(time.Nanosecond, time.Hour, 0)
				w.End(0, false)
			}
			l.Mu.Lock()
			l.Alive.Took -= 1000
			l.Mu.Unlock()
			l.Linger.Most = testutil.Patience
			return l.CloseWait(nil)
		},
		"a write deadline": func(l, _ *link.Link) error {
			past := make(chan struct{})
			time.AfterFunc(time.Millisecond, func() { close(past) })
			return l.CloseWait(past)
		},
		"CloseNow before": func(l, _ *link.Link) error {
			l.CloseNow()
			<-l.End.Done()
			return l.CloseWait(nil)
		},
		"CloseNow meanwhile": func(l, _ *link.Link) error {
			time.AfterFunc(time.Millisecond, l.CloseNow)
			return l.CloseWait(nil)
		},
		"the peer closed": func(l, peer *link.Link) error {
			peer.Close()
			testutil.Eventually(t, "this side knows", func() bool {
				l.Mu.Lock()
				defer l.Mu.Unlock()
				return l.End.PeerClosed
			})
			return l.CloseWait(nil)
		},
		"the peer broke the connection": func(l, peer *link.Link) error {
			peer.CloseNow()
			<-l.End.Done()
			return l.CloseWait(nil)
		},
		"the connection ended": func(l, _ *link.Link) error {
			l.Fail(rdmacm.ErrDisconnected)
			return l.CloseWait(nil)
		},
		"the connection manager closed": func(l, _ *link.Link) error {
			l.Fail(fmt.Errorf("here: %w", net.ErrClosed))
			return l.CloseWait(nil)
		},
		"the device has gone": func(l, _ *link.Link) error {
			l.Fail(&link.DeviceFault{Err: errors.New("gone")})
			return l.CloseWait(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := inMemory(t, memoryEngines(t, both(nil)), wire.Stream, [2]*Options{{}, {}})
			s := newStream(a)
			defer b.CloseNow()
			_, err := s.Write(make([]byte, 4*link.LargeBlock)) // two frames more than the peer has asked for
			ok(t, err)
			err = public(lose(a, b))
			if name == "the peer closed" && err == nil {
				return // it had dropped what came before, so its adapter has all
			}
			var lost *UndeliveredError
			if !errors.As(err, &lost) || lost.Frames == 0 || lost.Bytes == 0 {
				t.Fatalf("%v, want an *UndeliveredError with frames", err)
			}
			for _, e := range []error{err, s.fail("close", err), netOp("close", s.LocalAddr(), s.RemoteAddr(), err)} {
				if errors.Is(e, net.ErrClosed) || errors.Is(e, ErrClosed) || e.Error() == net.ErrClosed.Error() {
					t.Errorf("%v matches net.ErrClosed", e)
				}
			}
			if err := s.Close(); err == nil || errors.Is(err, net.ErrClosed) {
				t.Errorf("a second Close: %v, want the same", err)
			}
		})
	}
}

// TestStream_CloseDeadline closes a stream whose peer does not read, with a write deadline.
func TestStream_CloseDeadline(t *testing.T) {
	const ahead = 2 * time.Second // one that has passed when Close begins does not count
	for _, c := range []struct {
		name string
		set  func(*Stream) error
		past bool
	}{
		{"before", func(s *Stream) error { return s.SetWriteDeadline(time.Now().Add(ahead)) }, true},
		{"both", func(s *Stream) error { return s.SetDeadline(time.Now().Add(ahead)) }, true},
		{"of reads alone", func(s *Stream) error { return s.SetReadDeadline(time.Now().Add(time.Millisecond)) }, false},
		{"that has passed, as crypto/tls sets it",
			func(s *Stream) error { return s.SetWriteDeadline(time.Now()) }, false},
		{"none", func(s *Stream) error { return s.SetWriteDeadline(time.Time{}) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := inMemory(t, memoryEngines(t, both(nil)), wire.Stream, [2]*Options{{}, {Linger: testutil.Patience}})
			s, peer := newStream(a), newStream(b)
			_, err := s.Write(make([]byte, 4*link.LargeBlock))
			ok(t, err)
			s.l.Linger.Most = testutil.Patience
			ok(t, c.set(s))
			closed := make(chan error, 1)
			go func() { closed <- s.Close() }()
			if c.past {
				err := <-closed
				var lost *UndeliveredError
				if !errors.As(err, &lost) || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%v, want an *UndeliveredError that matches os.ErrDeadlineExceeded", err)
				}
			} else {
				time.Sleep(50 * time.Millisecond)
				if len(closed) > 0 {
					t.Errorf("Close has not waited: %v", <-closed)
				}
			}
			if n, err := io.Copy(io.Discard, peer); n != 4*link.LargeBlock || err != nil { // the engine goes on
				t.Errorf("the peer has %d bytes, %v", n, err)
			}
			if !c.past {
				ok(t, <-closed)
			}
			ok(t, peer.Close())
		})
	}
}

// TestErr_Closed keeps net.ErrClosed for what it means: this side has closed the connection.
func TestErr_Closed(t *testing.T) {
	a, b := inMemory(t, memoryEngines(t, both(nil)), wire.Messages, [2]*Options{{}, {}})
	c := &Conn{a}
	ok(t, c.Close())
	b.CloseNow()
	for what, err := range map[string]error{"Err": c.Err(), "Send": c.Send(context.Background(), nil)} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v, want net.ErrClosed", what, err)
		}
	}
}
