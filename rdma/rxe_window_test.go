package rdma

import (
	"net"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/pace"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// burst sends n messages that the receiver takes only when the window is used up, so that it grows.
func burst(t *testing.T, a, b *Conn, n int) {
	t.Helper()
	done := make(chan error, 1)
	a.l.Peer.Flags &^= wire.HelloPacks // a frame for each
	go func() {
		for range n {
			if err := a.Send(timeout(t), make([]byte, 100)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range n {
		m, err := b.Recv(timeout(t))
		ok(t, err)
		if m.Len() != 100 {
			t.Errorf("%d bytes, want 100", m.Len())
		}
		m.Release()
	}
	ok(t, <-done)
}

// windowOf returns the window, which the poller may change.
func windowOf(c *Conn) uint32 {
	c.l.Mu.Lock()
	defer c.l.Mu.Unlock()
	return c.l.Window.Recv.Window
}

// grow sends until the window is n or the shard has no more.
func grow(t *testing.T, a, b *Conn, n uint32) uint32 {
	t.Helper()
	for range 200 {
		burst(t, a, b, 3*wire.MaxWindow)
		if windowOf(b) >= n {
			break
		}
	}
	return windowOf(b)
}

// TestRXE_WindowsShrink uses all blocks for connections that then are idle. A new one gets its window, and those work
// on.
func TestRXE_WindowsShrink(t *testing.T) {
	testutil.NeedLogic(t)
	server, client := newEngines(t, &EngineOptions{Memory: 8 << 20})
	needSRQ(t, server)
	idle := 10
	if testutil.Full() {
		idle = 300
	}
	server.e.Shards[0].TickMu.Lock() // time goes on when the test says so
	defer server.e.Shards[0].TickMu.Unlock()
	l, err := Listen(timeout(t), net.JoinHostPort(testutil.NeedRXE(t).IP[0], "0"), &Options{Engine: server})
	ok(t, err)
	defer l.Close()
	pair := func() [2]*Conn {
		a, err := Dial(timeout(t), l.Addr().String(), from(testutil.NeedRXE(t), client))
		ok(t, err)
		b, err := l.Accept(timeout(t))
		ok(t, err)
		t.Cleanup(func() {
			ok(t, a.Close())
			ok(t, b.Close())
		})
		return [2]*Conn{a, b}
	}
	pairs := make([][2]*Conn, idle)
	for i := range pairs {
		pairs[i] = pair()
		burst(t, pairs[i][0], pairs[i][1], wire.MaxWindow)
		if i > 10 { // with windows that grow and never shrink there is memory for some 60
			server.e.Shards[0].BeatLocked()
		}
	}
	for _, p := range pairs[:10] {
		for range 5 {
			burst(t, p[0], p[1], 2*wire.MaxWindow)
		}
	}
	last := pair()
	burst(t, last[0], last[1], 5*wire.MaxWindow)
	before := windowOf(last[1])
	if before == wire.MaxWindow {
		t.Fatal("there are blocks for all: the test tells nothing")
	}
	for range pace.IdleTicks {
		server.e.Shards[0].BeatLocked()
	}
	burst(t, last[0], last[1], wire.MaxWindow) // it wants more, and is not idle
	server.e.Shards[0].BeatLocked()
	if idle == 10 {
		for i, p := range pairs {
			testutil.Eventually(t, "the window of an idle connection shrinks", func() bool {
				if windowOf(p[1]) == link.StartWindow {
					return true
				}
				burst(t, last[0], last[1], wire.MaxWindow) // a reader who kept up has not made it want more
				server.e.Shards[0].BeatLocked()
				return false
			})
			p[1].l.Mu.Lock()
			if r := &p[1].l.Window.Recv; r.Lowering || r.Window != link.StartWindow {
				t.Errorf("connection %d has %d blocks, and waits for an answer: %v", i, r.Window, r.Lowering)
			}
			p[1].l.Mu.Unlock()
		}
		server.e.Shards[0].BeatLocked()
		server.e.Shards[0].BeatLocked() // nobody wants more: the share is whole again
		if got := grow(t, last[0], last[1], wire.MaxWindow); got != wire.MaxWindow {
			t.Errorf("a new connection has a window of %d, and had %d before the others gave theirs back", got, before)
		}
	}
	for _, p := range pairs[:10] {
		echo(t, p[0], p[1])
		burst(t, p[0], p[1], 2*wire.MaxWindow)
	}
}

// TestRXE_ActiveWindows lets connections that are all active want more than there is: each gets a share.
func TestRXE_ActiveWindows(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{Memory: 8 << 20})
	var pairs [][2]*Conn
	for range 8 {
		a, b := conns(t, server, client)
		defer a.Close()
		defer b.Close()
		pairs = append(pairs, [2]*Conn{a, b})
	}
	share := uint32(server.e.Shards[0].RecvMost() / len(pairs))
	testutil.Eventually(t, "each has no more than its share", func() bool {
		for _, p := range pairs {
			burst(t, p[0], p[1], 2*wire.MaxWindow)
		}
		server.e.Shards[0].Beat()
		for _, p := range pairs {
			burst(t, p[0], p[1], wire.MaxWindow)
			if n := windowOf(p[1]); n > share {
				return false
			}
		}
		return true
	})
}

// TestRXE_SmallBlocks sends messages of many frames from an engine whose blocks are smaller than the receiver's.
func TestRXE_SmallBlocks(t *testing.T) {
	server, _ := newEngines(t, nil)
	client, err := NewEngine(testutil.NeedRXE(t).Dev[1], &EngineOptions{Block: 1 << 10})
	ok(t, err)
	defer func() { ok(t, client.Close()) }()
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	grow(t, a, b, wire.MaxWindow)
	done := make(chan error, 1)
	go func() { done <- a.Send(timeout(t), make([]byte, 1<<20)) }()
	m, err := b.Recv(timeout(t))
	ok(t, err)
	if m.Len() != 1<<20 {
		t.Errorf("%d bytes, want %d", m.Len(), 1<<20)
	}
	m.Release()
	ok(t, <-done)
}
