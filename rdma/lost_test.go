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
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// TestLost_NotClosed loses data in each way. Programs ignore net.ErrClosed after Close, so no error that says so may
// match it, or have its text.
func TestLost_NotClosed(t *testing.T) {
	for name, lose := range map[string]func(l, peer *link) error{
		"Linger": func(l, _ *link) error {
			l.linger.most = time.Millisecond
			return l.closeWait(nil)
		},
		"Linger, again": func(l, _ *link) error {
			l.linger.most = time.Millisecond
			_ = l.closeWait(nil)
			<-l.end.Done()
			return l.closeWait(nil)
		},
		"the shared time is over": func(l, _ *link) error {
			for range 100 { // they have waited in vain
				w, _ := l.e.eng.allowance.Begin(time.Nanosecond, time.Hour, 0)
				w.End(0, false)
			}
			l.mu.Lock()
			l.alive.Took -= 1000
			l.mu.Unlock()
			l.linger.most = testutil.Patience
			return l.closeWait(nil)
		},
		"a write deadline": func(l, _ *link) error {
			past := make(chan struct{})
			time.AfterFunc(time.Millisecond, func() { close(past) })
			return l.closeWait(past)
		},
		"CloseNow before": func(l, _ *link) error {
			l.closeNow()
			<-l.end.Done()
			return l.closeWait(nil)
		},
		"CloseNow meanwhile": func(l, _ *link) error {
			time.AfterFunc(time.Millisecond, l.closeNow)
			return l.closeWait(nil)
		},
		"the peer closed": func(l, peer *link) error {
			peer.close()
			testutil.Eventually(t, "this side knows", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.end.PeerClosed()
			})
			return l.closeWait(nil)
		},
		"the peer broke the connection": func(l, peer *link) error {
			peer.closeNow()
			<-l.end.Done()
			return l.closeWait(nil)
		},
		"the connection ended": func(l, _ *link) error {
			l.fail(rdmacm.ErrDisconnected)
			return l.closeWait(nil)
		},
		"the connection manager closed": func(l, _ *link) error {
			l.fail(fmt.Errorf("here: %w", net.ErrClosed))
			return l.closeWait(nil)
		},
		"the device has gone": func(l, _ *link) error {
			l.fail(&deviceFault{errors.New("gone")})
			return l.closeWait(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := inMemory(t, memoryEngines(t, both(nil)), wire.Stream, [2]*Options{{}, {}})
			s := newStream(a)
			defer b.closeNow()
			_, err := s.Write(make([]byte, 4*largeBlock)) // two frames more than the peer has asked for
			ok(t, err)
			err = lose(a, b)
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
	for _, c := range []struct {
		name string
		set  func(*Stream) error
		past bool
	}{
		{"before", func(s *Stream) error { return s.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)) }, true},
		{"both", func(s *Stream) error { return s.SetDeadline(time.Now().Add(20 * time.Millisecond)) }, true},
		{"of reads alone", func(s *Stream) error { return s.SetReadDeadline(time.Now().Add(time.Millisecond)) }, false},
		{"that has passed, as crypto/tls sets it",
			func(s *Stream) error { return s.SetWriteDeadline(time.Now()) }, false},
		{"none", func(s *Stream) error { return s.SetWriteDeadline(time.Time{}) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := inMemory(t, memoryEngines(t, both(nil)), wire.Stream, [2]*Options{{}, {Linger: testutil.Patience}})
			s, peer := newStream(a), newStream(b)
			_, err := s.Write(make([]byte, 4*largeBlock))
			ok(t, err)
			s.l.linger.most = testutil.Patience
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
			if n, err := io.Copy(io.Discard, peer); n != 4*largeBlock || err != nil { // the engine goes on
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
	b.closeNow()
	for what, err := range map[string]error{"Err": c.Err(), "Send": c.Send(context.Background(), nil)} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v, want net.ErrClosed", what, err)
		}
	}
}
