package rdma

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// TestFallback has no device: TCP carries the streams, and says why.
func TestFallback(t *testing.T) {
	var logged bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	defer slog.SetDefault(old)
	fallbackLogged.Store(false)
	opt := &Options{Fallback: true}
	l, err := ListenStream(timeout(t), "127.0.0.1:0", opt)
	ok(t, err)
	defer l.Close()
	a, err := DialStream(timeout(t), l.Addr().String(), opt)
	ok(t, err)
	defer a.Close()
	b, err := l.AcceptStream(timeout(t))
	ok(t, err)
	defer b.Close()
	if why, ok := strings.CutPrefix(a.Transport(), "tcp: "); !ok || why == "" {
		t.Errorf("transport of the dialer: %q", a.Transport())
	}
	if b.Transport() != "tcp: "+cameByTCP {
		t.Errorf("transport of the listener: %q", b.Transport())
	}
	exchange(t, a, b)

	plain, err := net.Dial("tcp", l.Addr().String()) // of any program
	ok(t, err)
	defer plain.Close()
	c, err := l.Accept()
	ok(t, err)
	defer c.Close()
	exchange(t, plain, c)
	if n := strings.Count(logged.String(), "\n"); n != 1 || !strings.Contains(logged.String(), "TCP carries") {
		t.Errorf("the log has %d lines, want 1:\n%s", n, &logged)
	}
}

// TestFallback_Authorize refuses TCP's connections as well.
func TestFallback_Authorize(t *testing.T) {
	asked := make(chan ConnRequest, 2)
	l, err := ListenStream(timeout(t), "127.0.0.1:0", &Options{Fallback: true,
		Authorize: func(_ context.Context, r ConnRequest) error {
			asked <- r
			if len(asked) == 2 {
				return nil
			}
			return errors.New("not yet")
		}})
	ok(t, err)
	defer l.Close()
	refused, err := net.Dial("tcp", l.Addr().String())
	ok(t, err)
	defer refused.Close()
	if n, err := refused.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes", n)
	}
	a, err := net.Dial("tcp", l.Addr().String())
	ok(t, err)
	defer a.Close()
	b, err := l.AcceptStream(timeout(t))
	ok(t, err)
	defer b.Close()
	<-asked
	if r := <-asked; r.RemoteAddr.String() != a.LocalAddr().String() || r.PrivateData != nil {
		t.Errorf("asked about %v", r)
	}
	exchange(t, a, b)
	if _, err := ListenPacket(timeout(t), "127.0.0.1:0", &Options{Authorize: func(context.Context, ConnRequest) error {
		return nil
	}}); err == nil {
		t.Error("ListenPacket has no use for Authorize, and ignores it")
	}
}

// TestFallback_LocalPort dials by TCP from the port of LocalAddr.
func TestFallback_LocalPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	defer l.Close()
	for try := 0; ; try++ { // another program may take the port
		free, err := net.Listen("tcp", "127.0.0.2:0")
		ok(t, err)
		from := netip.MustParseAddrPort(free.Addr().String())
		ok(t, free.Close())
		s, err := DialStream(timeout(t), l.Addr().String(), &Options{Fallback: true, LocalAddr: from})
		if errors.Is(err, syscall.EADDRINUSE) && try < 10 {
			continue
		}
		ok(t, err)
		if got := s.LocalAddr().String(); got != from.String() {
			t.Errorf("dialed from %s, want %v", got, from)
		}
		ok(t, s.Close())
		return
	}
}

// exchange sends both ways, with each method of a net.Conn and of *net.TCPConn.
func exchange(t *testing.T, a, b net.Conn) {
	t.Helper()
	var err error
	if s, ours := a.(*Stream); ours {
		pieces := net.Buffers{[]byte("hel"), nil, []byte("lo")}
		_, err = s.WriteBuffers(pieces)
		if string(pieces[0]) != "hel" {
			t.Errorf("WriteBuffers has changed what it was given: %q", pieces)
		}
	} else {
		_, err = a.Write([]byte("hello"))
	}
	ok(t, err)
	got := make([]byte, 5)
	_, err = io.ReadFull(b, got)
	ok(t, err)
	_, err = b.(io.ReaderFrom).ReadFrom(strings.NewReader("good day"))
	ok(t, err)
	ok(t, b.(interface{ CloseWrite() error }).CloseWrite())
	var all bytes.Buffer
	_, err = a.(io.WriterTo).WriteTo(&all)
	ok(t, err)
	if string(got) != "hello" || all.String() != "good day" {
		t.Errorf("got %q and %q", got, &all)
	}
	ok(t, b.SetReadDeadline(time.Now().Add(-time.Second)))
	var late net.Error
	if _, err := b.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("read after the deadline: %v", err)
	}
	if a.LocalAddr().String() != b.RemoteAddr().String() {
		t.Errorf("addresses %v and %v", a.LocalAddr(), b.RemoteAddr())
	}
}

// TestFallback_NoLibrary runs the tests above and below in a process that finds no library.
func TestFallback_NoLibrary(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestFallback(_Errors)?$", "-test.v")
	cmd.Env = append(os.Environ(), "PUREVERBS_LIBRARY_PATH="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil || bytes.Count(out, []byte("--- PASS")) != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFallback_Errors has what TCP cannot carry either, and what is wrong with the options.
func TestFallback_Errors(t *testing.T) {
	opt := &Options{Fallback: true}
	var arg *ibv.ArgError
	if _, err := Dial(t.Context(), "127.0.0.1:1", opt); !errors.As(err, &arg) {
		t.Errorf("messages: %v", err)
	}
	if _, err := Listen(t.Context(), "127.0.0.1:1", opt); !errors.As(err, &arg) {
		t.Errorf("messages: %v", err)
	}
	for _, bad := range []*Options{{Fallback: true, MaxMessage: -1}, {MaxMessage: -1},
		{Fallback: true, Timeout: -1}, {Fallback: true, RetryCount: 8}, {Fallback: true, AckTimeout: 31}} {
		if _, err := DialStream(t.Context(), "127.0.0.1:1", bad); !errors.As(err, &arg) {
			t.Errorf("bad options: %v", err)
		}
		if _, err := ListenStream(t.Context(), "127.0.0.1:1", bad); !errors.As(err, &arg) {
			t.Errorf("bad options: %v", err)
		}
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	addr := plain.Addr().String()
	if _, err := ListenStream(t.Context(), addr, opt); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port that is taken: %v", err)
	}
	if _, err := DialStream(t.Context(), addr, nil); err == nil || strings.Contains(err.Error(), "TCP") {
		t.Errorf("without Fallback, where only TCP listens: %v", err)
	}
	var late net.Error
	if _, err := DialStream(t.Context(), addr, &Options{Fallback: true, Timeout: 1}); !errors.As(err, &late) ||
		!late.Timeout() {
		t.Errorf("a dial by TCP after Timeout: %v", err)
	}
	ok(t, plain.Close())
	if _, err := DialStream(t.Context(), addr, opt); !errors.Is(err, syscall.ECONNREFUSED) ||
		!strings.Contains(err.Error(), "and by TCP") {
		t.Errorf("nobody listens: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := DialStream(ctx, addr, opt); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if _, err := ListenStream(t.Context(), "nowhere", opt); err == nil {
		t.Error("an address without a port is accepted")
	}

	l, err := ListenStream(t.Context(), "127.0.0.1:0", opt)
	ok(t, err)
	if _, err := l.AcceptStream(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("accept with a context that has ended: %v", err)
	}
	waits := make(chan error)
	go func() {
		_, err := l.Accept()
		waits <- err
	}()
	ok(t, l.Close())
	ok(t, l.Close())
	if err := <-waits; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept while closing: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after Close: %v", err)
	}
}

// TestFallbackCloseTwice closes a stream that TCP carries twice, which is no mistake.
func TestFallbackCloseTwice(t *testing.T) {
	d, c := tcpPair(t)
	defer c.Close()
	s := newTCPStream(d, "")
	ok(t, s.Close())
	ok(t, s.Close())
	ok(t, s.CloseNow())
	if _, err := s.Write(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
}
