package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// met returns one of our ends after its parameters, and the raw socket of a peer that gives up after silence, 0 for an
// older rdmaperf.
func met(t *testing.T, role Role, timeout, silence time.Duration) (*Conn, net.Conn) {
	t.Helper()
	w, raw := pair(t, role, timeout)
	greet(t, w, raw, role, timeout, silence)
	return w, raw
}

func greet(t *testing.T, w *Conn, raw net.Conn, role Role, timeout, silence time.Duration) {
	t.Helper()
	h := testHello
	h.Params.Silence = timeout
	peer := testParams
	peer.Silence = silence
	var wg sync.WaitGroup
	wg.Go(func() {
		stock(t, raw, role, []step{
			{"6.27\x00\x00\x00\x00pverbs1\x00", "6.27\x00\x00\x00\x00pverbs1\x00"},
			{"\x00\x00\x10\x00", "\x00\x00\x10\x00"},
			{"\x00\x00\x00\x40", "\x00\x00\x00\x40"},
			{"3\x00", "3\x00"},
			{string(peer.append(nil)), string(h.Params.append(nil))},
		})
	})
	a, err := w.Hello(h)
	wg.Wait()
	if err != nil || a.Beats != (silence > 0) {
		t.Fatalf("%+v, %v; the peer gives up after %v", a, err, silence)
	}
	w.UseGID(true)
}

// TestHeartbeats: an end sends them as often as the peer needs them, in the middle of nothing.
func TestHeartbeats(t *testing.T) {
	w, raw := met(t, Client, testutil.Patience, 40*time.Millisecond)
	b := make([]byte, 3)
	for i := range b {
		if n, err := raw.Read(b[i : i+1]); n != 1 || err != nil || b[i] != Heartbeat {
			t.Fatalf("byte %d is %#x, %v", i, b[i], err)
		}
	}
	// They neither begin nor end within a message, and stop when the connection ends.
	key := string(testDest.appendKey(nil, true))
	go func() { raw.Write([]byte{Heartbeat, Heartbeat}); raw.Write([]byte(key)) }()
	if d, err := w.Keys("keys", testDest); err != nil || d != testDest {
		t.Errorf("Keys = %+v, %v", d, err)
	}
	w.Close()
	raw.SetDeadline(time.Now().Add(testutil.Patience))
	said := ""
	for one := make([]byte, 1); ; {
		if _, err := raw.Read(one); err != nil {
			break
		}
		said += string(one)
	}
	if strings.Trim(said, string([]byte{Heartbeat})) != key {
		t.Errorf("it said %q", said)
	}
}

// TestSilence: an end that waits for as long as the peer works, and one that watches, notice that the peer is stopped,
// gone or interrupted. TestSlow has one that is slow.
func TestSilence(t *testing.T) {
	const quiet = 2 * time.Second // a busy machine takes a while to greet
	for _, tc := range []struct {
		name    string
		timeout time.Duration
		silence time.Duration // of the peer; 0: it has no heartbeats
		then    func(raw net.Conn)
		want    error
		text    string
	}{
		{"stopped", quiet, testutil.Patience, func(net.Conn) {}, ErrSilent,
			"for 2s, nor a heartbeat; check that it can be reached, and was not stopped"},
		{"stopped later", quiet, testutil.Patience,
			func(raw net.Conn) { raw.Write([]byte{Heartbeat}) }, ErrSilent, "nor a heartbeat"},
		{"killed", testutil.Patience, testutil.Patience, func(raw net.Conn) { raw.Close() }, ErrClosed, ""},
		{"interrupted", testutil.Patience, testutil.Patience, func(raw net.Conn) { raw.Write([]byte{goodbye}) },
			ErrInterrupted, ""},
		{"an older rdmaperf", quiet, 0, func(raw net.Conn) {
			time.Sleep(2 * quiet)
			raw.Write(testDest.appendKey(nil, true))
		}, nil, ""},
	} {
		check := func(t *testing.T, err error) {
			t.Helper()
			if tc.want == nil && err != nil || tc.want != nil && !errors.Is(err, tc.want) ||
				err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%v, want %v and %q", err, tc.want, tc.text)
			}
		}
		for _, role := range []Role{Client, Server} {
			t.Run(tc.name+"/"+role.String()+" waits", func(t *testing.T) {
				t.Parallel()
				w, raw := met(t, role, tc.timeout, tc.silence)
				go tc.then(raw)
				check(t, w.Barrier("end", testDest, Forever))
			})
		}
		t.Run(tc.name+"/watch", func(t *testing.T) {
			t.Parallel()
			w, raw := met(t, Server, tc.timeout, tc.silence)
			ended := make(chan error, 1)
			stop := w.Watch(func(err error) { ended <- err }, func() { ended <- nil })
			go tc.then(raw)
			select {
			case err := <-ended:
				check(t, err)
			case <-time.After(testutil.Patience):
				t.Error("nothing happened")
			}
			if stop(); tc.want != nil {
				return
			}
			if err := w.Barrier("end", testDest, Forever); err != nil {
				t.Errorf("after the watch: %v", err)
			}
		})
	}
}

// TestSlow: an end bears a peer that takes longer than the timeout, as long as heartbeats come, and not a heartbeat
// that comes too late. The clock is synctest's.
func TestSlow(t *testing.T) {
	const timeout = 2 * time.Second
	for _, tc := range []struct {
		name string
		beat time.Duration
		want error
	}{
		{"in time", timeout / beats, nil},
		{"just in time", timeout - time.Millisecond, nil},
		{"too late", timeout + time.Millisecond, ErrSilent},
	} {
		ends := func(t *testing.T, role Role) *Conn {
			var wg sync.WaitGroup
			c, raw := net.Pipe()
			w := NewConn(t.Context(), c, role, timeout)
			t.Cleanup(func() { raw.Close(); w.Close(); wg.Wait() })
			greet(t, w, raw, role, timeout, testutil.Patience)
			wg.Go(func() { io.Copy(io.Discard, raw) })
			wg.Go(func() {
				for range 10 {
					time.Sleep(tc.beat)
					raw.Write([]byte{Heartbeat})
				}
				raw.Write(testDest.appendKey(nil, true))
			})
			return w
		}
		for _, role := range []Role{Client, Server} {
			t.Run(tc.name+"/"+role.String()+" waits", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := ends(t, role)
					if err := w.Barrier("end", testDest, Forever); !errors.Is(err, tc.want) {
						t.Errorf("%v, want %v", err, tc.want)
					}
				})
			})
		}
		t.Run(tc.name+"/watch", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := ends(t, Server)
				ended := make(chan error, 1)
				stop := w.Watch(func(err error) { ended <- err }, func() { ended <- nil })
				if err := <-ended; !errors.Is(err, tc.want) {
					t.Errorf("%v, want %v", err, tc.want)
				}
				if stop(); tc.want != nil {
					return
				}
				if err := w.Barrier("end", testDest, Forever); err != nil {
					t.Errorf("after the watch: %v", err)
				}
			})
		})
	}
}

// TestWatchStops: a watch can end at any time, and begin again, while heartbeats come.
func TestWatchStops(t *testing.T) {
	w, raw := met(t, Server, testutil.Patience, testutil.Patience)
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-quit:
				raw.Write(testDest.appendKey(nil, true))
				return
			default:
				raw.Write([]byte{Heartbeat})
			}
		}
	})
	for range 100 {
		w.Watch(func(err error) { t.Errorf("gone: %v", err) }, func() { t.Error("spoke") })()
	}
	close(quit)
	if err := w.Barrier("end", testDest, testutil.Patience); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// stopped is a connection of a process that was stopped: its deadline passed meanwhile.
type stopped struct {
	net.Conn
	mu      sync.Mutex
	woke    bool
	pending bool
}

func (s *stopped) Read(b []byte) (int, error) {
	s.mu.Lock()
	was := s.pending && !s.woke
	s.woke = s.woke || was
	s.mu.Unlock()
	if was {
		return 0, os.ErrDeadlineExceeded
	}
	return s.Conn.Read(b)
}

// TestStoppedHere: an end that was stopped itself does not say so of its peer, whose heartbeats wait to be read.
func TestStoppedHere(t *testing.T) {
	w, raw := pair(t, Server, testutil.Patience)
	c := &stopped{Conn: w.c}
	w.c = c
	greet(t, w, raw, Server, testutil.Patience, testutil.Patience)
	c.mu.Lock()
	c.pending = true
	c.mu.Unlock()
	raw.Write([]byte{Heartbeat})
	raw.Write(testDest.appendKey(nil, true))
	if err := w.Barrier("end", testDest, Forever); err != nil || !c.woke {
		t.Errorf("%v; the deadline had passed: %v", err, c.woke)
	}
}

// TestLeave: an end that was interrupted says so, and stays until the peer has left, or was interrupted too.
func TestLeave(t *testing.T) {
	w, raw := met(t, Client, testutil.Patience, testutil.Patience)
	left := make(chan struct{})
	go func() { w.Leave(testutil.Patience); close(left) }()
	b := make([]byte, 1)
	if n, err := raw.Read(b); n != 1 || err != nil || b[0] != goodbye {
		t.Errorf("it said %#x, %v", b, err)
	}
	select {
	case <-left:
		t.Error("it did not wait for the peer")
	case <-time.After(20 * time.Millisecond):
	}
	raw.Write([]byte{Heartbeat, goodbye})
	select {
	case <-left:
	case <-time.After(testutil.Patience / 2):
		t.Error("it stayed")
	}
	// An older rdmaperf does not know what that is.
	w, raw = met(t, Client, testutil.Patience, 0)
	w.Leave(testutil.Patience)
	w.Close()
	if n, err := raw.Read(b); n != 0 || err == nil {
		t.Errorf("an older rdmaperf got %#x, %v", b[:n], err)
	}
}

// TestKeepAlive: without heartbeats the kernel gives up on a host when the timeout is over.
func TestKeepAlive(t *testing.T) {
	for _, tc := range []struct {
		limit, idle, interval time.Duration
		count                 int
	}{
		{30 * time.Second, 15 * time.Second, 3 * time.Second, 5},
		{2 * time.Second, time.Second, time.Second, 1},
		{100 * time.Millisecond, time.Second, time.Second, 1},
		{10 * time.Second, 5 * time.Second, time.Second, 5},
		{1e6 * time.Hour, 32767 * time.Second, 32767 * time.Second, 127},
	} {
		k := keepAlive(tc.limit)
		if !k.Enable || k.Idle != tc.idle || k.Interval != tc.interval || k.Count != tc.count {
			t.Errorf("%v: %+v", tc.limit, k)
		}
	}
}
