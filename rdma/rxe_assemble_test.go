package rdma

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// unfinished is a connection whose peer has announced a message of n bytes, and sends no more of it.
func unfinished(t *testing.T, server *Engine, n uint32) *Conn {
	t.Helper()
	l, err := Listen(timeout(t), testutil.NeedRXE(t).IP[0]+":0", &Options{Engine: server})
	ok(t, err)
	defer l.Close()
	a, err := attack(t, l.Addr().String(), goodHello(wire.Messages))
	ok(t, err)
	c, err := l.Accept(timeout(t))
	ok(t, err)
	t.Cleanup(func() { ok(t, c.Close()) })
	ok(t, a.post(wire.Header{Kind: wire.Data, Flags: wire.FlagMore, Limit: link.StartWindow, Length: 8, Aux: n}, 8))
	return c
}

// TestRXE_UnfinishedMessages has peers that never finish what they announce. What they hold is bounded, and others get
// their messages.
func TestRXE_UnfinishedMessages(t *testing.T) {
	needLogic(t)
	const memory, announced = 8 << 20, defaultMaxMessage
	server, client := newEngines(t, &EngineOptions{Memory: memory})
	ended := make(chan error, 5)
	for range cap(ended) {
		c := unfinished(t, server, announced)
		go func() {
			_, err := c.Recv(context.Background())
			ended <- err
		}()
	}
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	want := bytes.Repeat([]byte("message "), 5<<17)
	testutil.Eventually(t, "a message that will not end is admitted", func() bool {
		return server.Stats().Memory > announced
	})
	sent, got := make(chan error, 1), make(chan *Message, 1)
	go func() { sent <- a.Send(timeout(t), want) }()
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if m, err := b.Recv(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, %v; want no room for the message", m, err)
	}
	go func() {
		m, err := b.Recv(timeout(t))
		if err != nil {
			t.Error(err)
		}
		got <- m
	}()
	if used := server.Stats().Memory; used > memory+announced {
		t.Errorf("%d bytes are used, want at most %d, and one message beyond", used, memory)
	}
	var m *Message
	testutil.Eventually(t, "the honest message arrives", func() bool {
		server.e.Messages.Tick()
		select {
		case m = <-got:
			return true
		default:
			return false
		}
	})
	ok(t, <-sent)
	if m == nil || !bytes.Equal(m.Bytes(), want) {
		t.Fatal("another message")
	}
	m.Release()
	if err := <-ended; !errors.Is(err, ErrNoMemory) || errors.Is(err, ErrPeerGone) {
		t.Errorf("a connection whose message is overdue ends with %v, want ErrNoMemory", err)
	}
}

// TestRXE_ManyLongMessages sends messages that are together longer than the memory. They wait for each other.
func TestRXE_ManyLongMessages(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{Memory: 8 << 20})
	var wg sync.WaitGroup
	var pairs [6][2]*Conn
	for i := range pairs { // before windows grow into so little memory
		a, b := conns(t, server, client)
		defer a.Close()
		defer b.Close()
		pairs[i] = [2]*Conn{a, b}
	}
	for _, p := range pairs {
		for _, c := range [][2]*Conn{p, {p[1], p[0]}} {
			wg.Go(func() {
				for i := range 3 {
					if err := c[0].Send(timeout(t), bytes.Repeat([]byte{byte(i)}, 4<<20)); err != nil {
						t.Error(err)
					}
				}
			})
			wg.Go(func() {
				for i := range 3 {
					m, err := c[1].Recv(timeout(t))
					if err != nil {
						t.Error(err)
						return
					}
					if p := m.Bytes(); len(p) != 4<<20 || p[0] != byte(i) || p[len(p)-1] != byte(i) {
						t.Errorf("message %d is another one", i)
					}
					m.Release()
				}
			})
		}
	}
	wg.Wait()
	if used := server.Stats().Memory; used > 8<<20 {
		t.Errorf("%d bytes are used after all", used)
	}
}
