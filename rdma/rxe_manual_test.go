package rdma

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/deadline"
)

// TestRXE_Manual sends messages both ways on a single goroutine, which polls.
func TestRXE_Manual(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{Manual: true, Memory: 16 << 20})
	a, b := conns(t, server, client)
	ctx := timeout(t)
	turn := func() {
		t.Helper()
		for _, e := range []*Engine{server, client} {
			_, err := e.Poll()
			ok(t, err)
		}
		ok(t, ctx.Err())
	}
	next := func(c *Conn) *Message {
		t.Helper()
		for {
			m, there, err := c.TryRecv()
			ok(t, err)
			if there {
				return m
			}
			turn()
		}
	}
	if m, there, err := b.TryRecv(); m != nil || there || err != nil {
		t.Errorf("TryRecv before something was sent: %v, %v, %v", m, there, err)
	}
	for i := range 300 {
		p := bytes.Repeat([]byte{byte(i)}, i*200)
		for _, way := range [][2]*Conn{{a, b}, {b, a}} {
			ok(t, way[0].Send(ctx, p))
			m := next(way[1])
			if !bytes.Equal(m.Bytes(), p) {
				t.Errorf("%d bytes that differ from the %d sent", m.Len(), len(p))
			}
			m.Release()
		}
	}
	if _, err := a.Recv(canceled()); err != context.Canceled {
		t.Errorf("Recv with an ended context: %v", err)
	}

	// Methods that wait poll, each its own engine.
	big := make([]byte, 3<<20)
	done := make(chan error)
	go func() { done <- errors.Join(a.Send(ctx, big), a.Flush(ctx)) }()
	m, err := b.Recv(ctx)
	ok(t, err)
	if m.Len() != len(big) {
		t.Errorf("%d bytes, want %d", m.Len(), len(big))
	}
	m.Release()
	ok(t, <-done)
	go func() {
		_, err := client.Wait(ctx)
		done <- err
	}()
	ok(t, b.Send(ctx, nil))
	ok(t, <-done)
	next(a).Release()
	if _, err := client.Wait(canceled()); err != context.Canceled {
		t.Errorf("Wait with an ended context: %v", err)
	}
	ok(t, a.Close())
	for {
		m, there, err := b.TryRecv()
		if err == io.EOF {
			break
		}
		if err != nil || there {
			t.Fatalf("after Close: %v, %v", m, err)
		}
		turn()
	}
	ok(t, b.Close())

	s, r := streams(t, server, client)
	go func() {
		_, err := s.Write(big)
		done <- errors.Join(err, s.Close())
	}()
	if n, err := io.Copy(io.Discard, r); n != int64(len(big)) || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	ok(t, <-done)
	ok(t, r.Close())
}

// TestRXE_ManualLease lends memory between engines that are polled only by the goroutines that wait.
func TestRXE_ManualLease(t *testing.T) {
	server, client := newEngines(t, &EngineOptions{Manual: true, Memory: 16 << 20})
	ctx := timeout(t)
	holder, owner := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
	mem, local := buffer(t, server, 4096), buffer(t, client, 4096)
	want := scramble(mem, 1)
	for _, revoked := range []bool{false, true} {
		s, err := owner.Lend(ctx, mem, MayRead|MayWrite, 0)
		ok(t, err)
		ended := make(chan error)
		go func() {
			if _, err := s.Wait(ctx); revoked != errors.Is(err, ErrRevoked) {
				t.Errorf("Wait: %v, revoked: %v", err, revoked)
			}
			ended <- nil
		}()
		r, err := holder.Borrow(ctx)
		ok(t, err)
		ok(t, r.Read(ctx, local, 0))
		if !bytes.Equal(local.Bytes(), want) {
			t.Error("read other bytes")
		}
		if revoked {
			go func() {
				for !deadline.IsClosed(r.Done()) {
					_, _ = client.Poll()
				}
			}()
			ok(t, s.Revoke(ctx))
		} else {
			ok(t, r.Return(ctx))
		}
		ok(t, <-ended)
	}
	ok(t, errors.Join(holder.Close(), owner.Close()))
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestRXE_NotManual(t *testing.T) {
	e := poolEngine(t, 0)
	var arg *ibv.ArgError
	if _, err := e.Poll(); !errors.As(err, &arg) {
		t.Errorf("Poll of an engine with a poller: %v", err)
	}
	if _, err := e.Wait(t.Context()); !errors.As(err, &arg) {
		t.Errorf("Wait for an engine with a poller: %v", err)
	}
}

// TestRXE_ManualClosed closes an engine while the program waits for it.
func TestRXE_ManualClosed(t *testing.T) {
	e, _ := newEngines(t, &EngineOptions{Manual: true, Memory: 16 << 20})
	waiting := make(chan error)
	go func() {
		_, err := e.Wait(context.Background())
		waiting <- err
	}()
	time.Sleep(time.Millisecond)
	ok(t, e.Close())
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
	if _, err := e.Poll(); !errors.Is(err, ErrClosed) {
		t.Errorf("Poll: %v", err)
	}
	if _, err := e.Wait(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait after Close: %v", err)
	}
}
