package rdma

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestReleasedTwice: with PUREVERBS_LEAKS=1, the panic of a second Release names the place of the first one, and what
// was not released is recorded with the place that got it.
func TestReleasedTwice(t *testing.T) {
	defer leak.SetHot(leak.SetHot(true))
	l := fakeLinkOf(wire.Hello{Block: 64}, wire.Messages, nil)
	m := fakeMessage(l, nil, 0, false)
	p := fakePool()
	b := fakeBuffer(p)
	for _, want := range []string{"message of ", "buffer of 64 bytes"} {
		if open := strings.Join(leak.Open(), "\n"); !strings.Contains(open, want) || !strings.Contains(open, t.Name()) {
			t.Errorf("%q is not recorded: %s", want, open)
		}
	}
	firstRelease := func() {
		m.Release()
		b.Release()
	}
	firstRelease()
	for what, f := range map[string]func(){
		"Message.Release": m.Release,
		"Message.Bytes":   func() { m.Bytes() },
		"Buffer.Release":  b.Release,
		"Buffer.Bytes":    func() { b.Bytes() },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, t.Name()+".func1") {
					t.Errorf("%s panics with %q", what, text)
				}
			}()
			f()
		}()
	}
	fakeBuffer(p).Release()
	open := strings.Join(leak.Open(), "\n")
	if strings.Contains(open, "message of") || strings.Contains(open, "buffer of") {
		t.Errorf("still recorded: %s", open)
	}
}

// TestLost_Collected: a stream that the program has lost without closing it ends, and the peer hears of it.
func TestLost_Collected(t *testing.T) {
	engines := memoryEngines(t, both(nil))
	lines := make(chan string, 10)
	log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		lines <- string(p)
		return len(p), nil
	}), nil))
	a, b := inMemory(t, engines, wire.Stream, [2]*Options{{Logger: log}, {}})
	peer := newStream(b)
	defer peer.Close()
	use := func() {
		s := newStream(a)
		_, err := s.Write([]byte("hello"))
		ok(t, err)
		ok(t, s.SetDeadline(time.Now().Add(time.Hour)))
	}
	use()
	_, err := io.ReadFull(peer, make([]byte, 5))
	ok(t, err)
	done := peer.Done()
	testutil.Eventually(t, "it ends", func() bool {
		runtime.GC()
		return deadline.IsClosed(done)
	})
	if line := <-lines; !strings.Contains(line, "did not close") || !strings.Contains(line, "127.0.0.1:2") {
		t.Errorf("%q in the log", line)
	}
	if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, ErrPeerGone) {
		t.Errorf("the peer: %v, want ErrPeerGone", err)
	}
	a, b = inMemory(t, engines, wire.Stream, [2]*Options{{Logger: log}, {}}) // one that is closed
	ok(t, newStream(b).Close())
	ok(t, newStream(a).Close())
	for range 3 {
		runtime.GC()
	}
	if len(lines) > 0 {
		t.Errorf("%q in the log of streams that were closed", <-lines)
	}
	// A goroutine that waits in a method has the stream.
	a, b = inMemory(t, engines, wire.Stream, [2]*Options{{Logger: log}, {}})
	read := make(chan error)
	go func() {
		_, err := io.ReadFull(newStream(a), make([]byte, 5))
		read <- err
	}()
	for range 10 {
		runtime.GC()
	}
	s := newStream(b)
	_, err = s.Write([]byte("hello"))
	ok(t, err)
	ok(t, <-read)
	ok(t, s.Close())
	testutil.Eventually(t, "the one that nobody has is collected", func() bool {
		runtime.GC()
		return engines[0].Stats().Conns == 0
	})
}

// TestConnIsTheSame: a link has one Conn while the program has it, and does not keep it.
func TestConnIsTheSame(t *testing.T) {
	l := &link.Link{}
	c := connOf(l)
	if connOf(l) != c {
		t.Error("another Conn")
	}
	runtime.KeepAlive(c)
	for range 100 {
		if runtime.GC(); l.View.(weak.Pointer[Conn]).Value() == nil {
			return
		}
	}
	t.Error("the link keeps its Conn")
}
