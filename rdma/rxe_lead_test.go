package rdma

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
)

// noPings has nothing but its peer wake a connection.
func noPings(links ...*link.Link) {
	for _, l := range links {
		l.Mu.Lock()
		l.Alive.Every = 0
		l.Mu.Unlock()
	}
}

// leading has f, which waits for sig, read the events of its engine, which is at rest. It returns when f sleeps, and
// what f will return.
func leading(t *testing.T, e *link.Shard, sig *progress.Signal, f func() error) (got chan error) {
	t.Helper()
	atRest(t, e)
	e.Progress.LeadNext()
	got = make(chan error, 1)
	go func() { got <- f() }()
	for end := time.Now().Add(testutil.Patience); !sig.Reading(); time.Sleep(progress.Absence / 10) {
		if time.Now().After(end) {
			t.Fatalf("%v reads, want the goroutine that waits", e.Progress.Reader())
		}
	}
	return got
}

// TestRXE_LeadEnds has a reader that reads the device's events be woken by all that may end its wait.
func TestRXE_LeadEnds(t *testing.T) {
	needLogic(t)
	tests := []struct {
		name string
		ends func(a, b *Stream)
		want error
	}{
		{"a frame", func(a, _ *Stream) { _, _ = a.Write([]byte("x")) }, nil},
		{"the peer's FIN", func(a, _ *Stream) { _ = a.CloseWrite() }, io.EOF},
		{"the peer's Close", func(a, _ *Stream) { _ = a.Close() }, io.EOF},
		{"the peer's end", func(a, _ *Stream) { a.l.Fail(errors.New("a test")) }, ErrPeerGone},
		{"CloseRead", func(_, b *Stream) { _ = b.CloseRead() }, io.EOF},
		{"Close", func(_, b *Stream) { _ = b.Close() }, net.ErrClosed},
		{"a deadline", func(_, b *Stream) { _ = b.SetReadDeadline(time.Now()) }, os.ErrDeadlineExceeded},
		{"a deadline that comes", func(_, b *Stream) {
			_ = b.SetReadDeadline(time.Now().Add(progress.Absence))
		}, os.ErrDeadlineExceeded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			se, ce := newEngines(t, &EngineOptions{Spin: -1})
			a, b := streams(t, se, ce)
			server := b.l.Shard // that of large blocks
			defer a.Close()
			defer b.Close()
			noPings(a.l, b.l)
			got := leading(t, server, &b.l.Reader.Wake, func() error {
				_, err := b.Read(make([]byte, 10))
				return err
			})
			tt.ends(a, b)
			if err := <-got; !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			atRest(t, server)
		})
	}
}

// TestRXE_LeadContext has contexts end the waits of a goroutine that reads the device's events: the context with which
// it began to read, and another one, with which it does not read.
func TestRXE_LeadContext(t *testing.T) {
	se, ce := newEngines(t, &EngineOptions{Spin: -1})
	a, b := conns(t, se, ce)
	server := se.e.Shards[0]
	defer a.Close()
	defer b.Close()
	noPings(a.l, b.l)
	recv := func(ctx context.Context) func() error {
		return func() error {
			m, err := b.Recv(ctx)
			if err == nil {
				m.Release()
			}
			return err
		}
	}
	ctx, cancel := context.WithCancel(timeout(t))
	got := leading(t, server, &b.l.Reader.Wake, func() error {
		for range 3 {
			ok(t, recv(ctx)())
		}
		return recv(ctx)()
	})
	for range 3 {
		ok(t, a.Send(ctx, []byte("x")))
		time.Sleep(progress.Absence / 4)
	}
	ok(t, a.Send(ctx, []byte("x")))
	ok(t, <-got)
	atRest(t, server)
	got = leading(t, server, &b.l.Reader.Wake, recv(ctx))
	cancel()
	if err := <-got; err != context.Canceled {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	atRest(t, server)

	got = leading(t, server, &b.l.Reader.Wake, func() error {
		ok(t, recv(timeout(t))())
		other, cancel := context.WithCancel(context.Background())
		time.AfterFunc(2*progress.Absence, cancel)
		return recv(other)()
	})
	ok(t, a.Send(timeout(t), []byte("x")))
	if err := <-got; err != context.Canceled {
		t.Errorf("another context: %v, want %v", err, context.Canceled)
	}
	atRest(t, server)
}

// TestRXE_LeadOthers has others wait while one reads the device's events, and after it has left.
func TestRXE_LeadOthers(t *testing.T) {
	se, ce := newEngines(t, &EngineOptions{Spin: -1})
	ctx := timeout(t)
	var a, b [2]*Stream
	for i := range a {
		a[i], b[i] = streams(t, se, ce)
		defer a[i].Close()
		defer b[i].Close()
	}
	server := b[0].l.Shard
	read := func(s *Stream) func() error {
		return func() error {
			_, err := s.Read(make([]byte, 1))
			return err
		}
	}
	write := func(s *Stream) { _, _ = s.Write([]byte("x")) }
	waiter := func(f func() error) chan error {
		got := make(chan error, 1)
		go func() { got <- f() }()
		for server.Progress.Sleepers() < 1 && ctx.Err() == nil {
			time.Sleep(progress.Absence / 10)
		}
		return got
	}
	first := leading(t, server, &b[0].l.Reader.Wake, read(b[0]))
	second := waiter(read(b[1]))
	write(a[1])
	ok(t, <-second) // it is told by the first
	if got := server.Progress.Reader(); got != "waiter" {
		t.Errorf("%v reads, want the first", got)
	}
	second = waiter(read(b[1]))
	write(a[0])
	ok(t, <-first)
	write(a[1])
	ok(t, <-second) // by the poller
	atRest(t, server)

	// Who comes while the one that reads is away.
	first = leading(t, server, &b[0].l.Reader.Wake, read(b[0]))
	write(a[0])
	ok(t, <-first)
	second = make(chan error, 1)
	go func() { second <- read(b[1])() }()
	write(a[1])
	ok(t, <-second)
	atRest(t, server)
}

// TestRXE_LeadWriter has a writer that waits for room read the device's events, and a reader of the same stream beside
// it.
func TestRXE_LeadWriter(t *testing.T) {
	needLogic(t)
	se, ce := newEngines(t, &EngineOptions{Spin: -1})
	a, b := streams(t, se, ce)
	server, client := b.l.Shard, a.l.Shard // those of large blocks
	defer a.Close()
	defer b.Close()
	const size = 8 << 20 // more than fits before somebody reads
	filled := make(chan int, 1)
	go func() {
		n, _ := a.Write(make([]byte, size))
		filled <- n
	}()
	testutil.Eventually(t, "there is no room", func() bool {
		a.l.Mu.Lock()
		defer a.l.Mu.Unlock()
		return !a.l.Queue.MayStage() && a.l.Send.Left() == 0
	})
	ok(t, a.SetWriteDeadline(time.Now()))
	n := <-filled
	ok(t, a.SetWriteDeadline(time.Time{}))
	wrote := leading(t, client, &a.l.Writer.Wake, func() error {
		_, err := a.Write(make([]byte, size-n)) // waits once
		return err
	})
	answer := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(a, make([]byte, 1))
		answer <- err
	}()
	if _, err := io.ReadFull(b, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	ok(t, <-wrote)
	_, err := b.Write([]byte("x"))
	ok(t, err)
	ok(t, <-answer)
	atRest(t, server, client)
}

// TestRXE_LeadOften: a goroutine that waits often reads events itself. One that waits seldom, or with others, does not.
func TestRXE_LeadOften(t *testing.T) {
	if r := testutil.NeedRXE(t); !r.Emulated && !r.Hardware {
		t.Skip("its pauses have to be shorter than half a millisecond: runs on the emulated device only")
	}
	se, ce := newEngines(t, &EngineOptions{Spin: -1})
	a, b := streams(t, se, ce)
	server, client := b.l.Shard, a.l.Shard // those of large blocks
	defer a.Close()
	defer b.Close()
	p := make([]byte, 1)
	turn := func() {
		_, err := a.Write(p)
		ok(t, err)
		_, err = b.Read(p)
		ok(t, err)
	}
	atRest(t, server)
	for range progress.EvictAfter + 2 {
		time.Sleep(progress.Absence)
		turn()
	}
	if got := server.Progress.Reader(); got == "nobody" {
		t.Errorf("%v reads, which seldom waits", got)
	}
	c, d := streams(t, b.Engine(), a.Engine())
	defer c.Close()
	defer d.Close()
	other := make(chan error, 1)
	go func() {
		_, err := d.Read(make([]byte, 1))
		other <- err
	}()
	for server.Progress.Sleepers() == 0 {
		time.Sleep(progress.Absence / 10)
	}
	for range 10 * progress.EvictAfter {
		turn()
		if got := server.Progress.Reader(); got == "nobody" {
			t.Errorf("%v reads, while another one waits", got)
		}
	}
	_, err := c.Write(p)
	ok(t, err)
	ok(t, <-other)
	for end := time.Now().Add(testutil.Patience); server.Progress.Reader() != "nobody"; {
		turn()
		if time.Now().After(end) {
			t.Fatal("nobody but the poller reads")
		}
	}
	atRest(t, server, client)
}
