package rdma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestRXE_Calls makes many calls at a time over one connection: some fail, some are given up, some take long.
func TestRXE_Calls(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	defer b.Close()
	hold := make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- Serve(timeout(t), b, func(ctx context.Context, m *Message) ([]byte, error) {
			s := string(m.Bytes())
			switch {
			case s == "hold":
				<-hold
				return []byte("held"), nil
			case s == "fail":
				return nil, errors.New("as asked")
			}
			n, err := strconv.Atoi(s)
			return bytes.Repeat([]byte{byte(n)}, n*37), err
		})
	}()
	r, err := NewCaller(a)
	ok(t, err)
	var wg sync.WaitGroup
	for k := range 20 {
		wg.Go(func() {
			for i := range 50 {
				n := k*50 + i
				m, err := r.Call(timeout(t), []byte(fmt.Sprint(n)))
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(m.Bytes(), bytes.Repeat([]byte{byte(n)}, n*37)) {
					t.Errorf("call %d: %d bytes", n, m.Len())
				}
				m.Release()
			}
		})
	}
	held := make(chan error, 1)
	go func() {
		m, err := r.Call(timeout(t), []byte("hold"))
		if err == nil {
			m.Release()
		}
		held <- err
	}()
	ctx, cancel := context.WithCancel(timeout(t))
	cancel()
	if _, err := r.Call(ctx, []byte("hold")); err != context.Canceled {
		t.Errorf("a call that was given up: %v", err)
	}
	var failed *CallError
	if _, err := r.Call(timeout(t), []byte("fail")); !errors.As(err, &failed) || failed.Text != "as asked" {
		t.Errorf("a call that fails: %v", err)
	}
	wg.Wait()
	close(hold)
	ok(t, <-held)
	ok(t, r.Close())
	ok(t, <-served)
	if _, err := r.Call(timeout(t), []byte("1")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestRXE_CallTooLarge has a handler with more to say than the caller takes: the call fails, and does not wait.
func TestRXE_CallTooLarge(t *testing.T) {
	const most = 100
	server, client := newEngines(t, nil)
	r := testutil.NeedRXE(t)
	l, err := Listen(timeout(t), net.JoinHostPort(r.IP[0], "0"), &Options{Engine: server})
	ok(t, err)
	defer l.Close()
	o := from(r, client)
	o.MaxMessage = most
	a, err := Dial(timeout(t), l.Addr().String(), o)
	ok(t, err)
	b, err := l.Accept(timeout(t))
	ok(t, err)
	defer b.Close()
	served := make(chan error, 1)
	long := strings.Repeat("x", most+1)
	go func() {
		served <- Serve(timeout(t), b, func(_ context.Context, m *Message) ([]byte, error) {
			if m.Len() == 0 {
				return nil, errors.New(long)
			}
			return []byte(long), nil
		})
	}()
	c, err := NewCaller(a)
	ok(t, err)
	for request, want := range map[string]string{"": long[:most], "request": ErrTooLarge.Error()} {
		var failed *CallError
		if _, err := c.Call(timeout(t), []byte(request)); !errors.As(err, &failed) ||
			!strings.Contains(failed.Text, want) {
			t.Errorf("%q: %v, want %q", request, err, want)
		}
	}
	ok(t, c.Close())
	ok(t, <-served)
}

// TestRXE_ServeLongPolls: 256 handlers run at a time on a fresh connection, however long they take, and their requests
// count as memory of the engine meanwhile.
func TestRXE_ServeLongPolls(t *testing.T) {
	needLogic(t)
	const size = 20_000
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	defer b.Close()
	var peak Stats
	var running atomic.Int32
	all := make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- Serve(timeout(t), b, func(ctx context.Context, m *Message) ([]byte, error) {
			if running.Add(1) == callsMost {
				peak = server.Stats()
				close(all)
			}
			select {
			case <-all:
			case <-ctx.Done():
			}
			return m.Bytes()[:2], nil
		})
	}()
	r, err := NewCaller(a)
	ok(t, err)
	var wg sync.WaitGroup
	for i := range callsMost {
		wg.Go(func() {
			p := bytes.Repeat([]byte{byte(i)}, size)
			m, err := r.Call(timeout(t), p)
			if err != nil {
				t.Error(err)
				return
			}
			if !bytes.Equal(m.Bytes(), p[:2]) {
				t.Errorf("call %d: the reply is % x", i, m.Bytes())
			}
			m.Release()
		})
	}
	wg.Wait()
	ok(t, r.Close())
	ok(t, <-served)
	s := server.Stats()
	if more := int64(s.Blocks-peak.Blocks) * 40 << 10; s.Memory > peak.Memory-callsMost*size+more {
		t.Errorf("%d bytes count as memory, %d when %d requests of %d bytes were copied", s.Memory, peak.Memory,
			callsMost, size)
	}
}

// TestRXE_ServeEnds has more calls open than Serve handles when the peer closes, and when ctx ends: the contexts of the
// handlers end, and Serve returns.
func TestRXE_ServeEnds(t *testing.T) {
	server, client := newEngines(t, nil)
	for name, want := range map[string]error{"the peer closes": nil, "ctx ends": context.Canceled} {
		a, b := conns(t, server, client)
		ctx, cancel := context.WithCancel(timeout(t))
		var running atomic.Int32
		full := make(chan struct{})
		served := make(chan error, 1)
		go func() {
			served <- Serve(ctx, b, func(ctx context.Context, m *Message) ([]byte, error) {
				if running.Add(1) == callsMost {
					close(full)
				}
				<-ctx.Done()
				return nil, ctx.Err()
			})
		}()
		r, err := NewCaller(a)
		ok(t, err)
		var calls sync.WaitGroup
		call := func(n int) {
			for range n {
				calls.Go(func() { _, _ = r.Call(timeout(t), []byte("x")) })
			}
		}
		call(callsMost)
		select {
		case <-full:
		case <-timeout(t).Done():
			t.Fatalf("%s: %d handlers run", name, running.Load())
		}
		call(int(link.StartWindow)) // for which there are credits
		testutil.Eventually(t, "requests that wait for a handler", func() bool {
			b.l.Mu.Lock()
			defer b.l.Mu.Unlock()
			return b.l.Inbox.Len() > 0
		})
		if want == nil {
			ok(t, r.Close())
		} else {
			cancel()
		}
		if err := <-served; err != want {
			t.Errorf("%s: Serve returns %v, want %v", name, err, want)
		}
		ok(t, r.Close())
		calls.Wait()
		ok(t, b.Close())
		cancel()
	}
}

// TestRXE_ServeFull has a peer whose window is full when it closes, because so many handlers run, or because they keep
// so many bytes: its Close returns nil, and so does Serve.
func TestRXE_ServeFull(t *testing.T) {
	needLogic(t)
	for _, c := range []struct {
		name           string
		size, handlers int
	}{
		{"handlers", 20_000, callsMost}, {"bytes", 2 * link.DefaultBlock, copiesMost/(2*link.DefaultBlock) + 1},
	} {
		for _, manual := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, manual %v", c.name, manual), func(t *testing.T) {
				serveFull(t, c.size, c.handlers, manual)
			})
		}
	}
}

func serveFull(t *testing.T, size, handlers int, manual bool) {
	server, client := newEngines(t, &EngineOptions{Manual: manual})
	a, b := conns(t, server, client)
	defer b.Close()
	served := make(chan error, 1)
	var running atomic.Int32
	go func() {
		served <- Serve(timeout(t), b, func(ctx context.Context, m *Message) ([]byte, error) {
			running.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}()
	r, err := NewCaller(a)
	ok(t, err)
	var wg sync.WaitGroup
	for range handlers + wire.MaxWindow + 2*link.StageMost {
		wg.Go(func() {
			if _, err := r.Call(timeout(t), make([]byte, size)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a call: %v, want one that matches net.ErrClosed", err)
			}
		})
	}
	testutil.Eventually(t, "a full window", func() bool {
		a.l.Mu.Lock()
		defer a.l.Mu.Unlock()
		return int(running.Load()) >= handlers && a.l.Send.Left() == 0 && a.l.Queue.Staged() > 0
	})
	ok(t, r.Close())
	ok(t, <-served)
	wg.Wait()
}

// TestRXE_ServeReleases: a handler that releases the request itself, or keeps it, harms no other message.
func TestRXE_ServeReleases(t *testing.T) {
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	defer b.Close()
	var kept *Message
	served := make(chan error, 1)
	go func() {
		served <- Serve(timeout(t), b, func(_ context.Context, m *Message) ([]byte, error) {
			reply := bytes.Clone(m.Bytes())
			if kept = m; len(reply) == 1 {
				m.Release()
			}
			return reply, nil
		})
	}()
	r, err := NewCaller(a)
	ok(t, err)
	for i := range 100 {
		p := make([]byte, 1+i%2)
		m, err := r.Call(timeout(t), p)
		ok(t, err)
		if !bytes.Equal(m.Bytes(), p) {
			t.Errorf("call %d: the reply is % x", i, m.Bytes())
		}
		m.Release()
	}
	ok(t, r.Close())
	ok(t, <-served)
	panics(t, "Bytes of a request after its handler", func() { kept.Bytes() })
}

// TestRXE_ServeBytes: the handlers of long requests run as many at a time as have 64 MiB of them.
func TestRXE_ServeBytes(t *testing.T) {
	needLogic(t)
	const calls, size = 10, defaultMaxMessage
	server, client := newEngines(t, nil)
	a, b := conns(t, server, client)
	defer b.Close()
	var running, most atomic.Int32
	full := make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- Serve(timeout(t), b, func(ctx context.Context, m *Message) ([]byte, error) {
			n := running.Add(1)
			most.Store(max(most.Load(), n))
			if n == requestBytes/size {
				select {
				case <-full:
				default:
					close(full)
				}
			}
			<-full
			running.Add(-1)
			return nil, nil
		})
	}()
	r, err := NewCaller(a)
	ok(t, err)
	p := make([]byte, size)
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			m, err := r.Call(timeout(t), p)
			if err != nil {
				t.Error(err)
				return
			}
			m.Release()
		})
	}
	wg.Wait()
	if n := most.Load(); n != requestBytes/size {
		t.Errorf("%d handlers of requests of %d bytes ran at a time, want %d", n, size, requestBytes/size)
	}
	ok(t, r.Close())
	ok(t, <-served)
}
