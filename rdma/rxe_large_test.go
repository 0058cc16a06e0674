package rdma

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// isLarge reports whether a stream has large blocks at this end.
func isLarge(s *Stream) bool { return s.l.Shard == s.Engine().e.Shards[0].Large }

// carry sends n bytes from a to b and compares them.
func carry(t *testing.T, a, b *Stream, n int, seed uint64) {
	t.Helper()
	want := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(want)
	wrote := make(chan error, 1)
	go func() {
		_, err := a.Write(want)
		wrote <- err
	}()
	got := make([]byte, n)
	_, err := io.ReadFull(b, got)
	ok(t, err)
	ok(t, <-wrote)
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived differently", n)
	}
}

// TestRXE_LargeStreams opens more streams than get large blocks, which all work, and finds the places of those that
// were closed again.
func TestRXE_LargeStreams(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{Memory: link.LargeLeast})
	needSRQ(t, server)
	most := client.e.Shards[0].Large.Options.MaxConns
	slabs := link.LargeLeast / link.LargeShare / link.LargeSlab
	if most != (slabs*31-link.MostLarge.Control)/link.LargeEach {
		t.Fatalf("places for %d streams with large blocks", most)
	}
	var pairs [][2]*Stream
	for range most + 2 {
		a, b := streams(t, server, client)
		pairs = append(pairs, [2]*Stream{a, b})
	}
	check := func(i int, want bool) {
		t.Helper()
		if a, b := isLarge(pairs[i][0]), isLarge(pairs[i][1]); a != want || b != want {
			t.Errorf("stream %d has large blocks: %v, and its peer: %v; want %v", i, a, b, want)
		}
	}
	var all sync.WaitGroup
	for i, p := range pairs {
		check(i, i < most)
		all.Go(func() { carry(t, p[0], p[1], 3<<20+i, uint64(i)) })
		all.Go(func() { carry(t, p[1], p[0], 2<<20+i, uint64(i)) })
	}
	all.Wait()
	a, b := conns(t, server, client)
	if a.l.Shard != client.e.Shards[0] || b.l.Shard != server.e.Shards[0] {
		t.Error("messages have large blocks")
	}
	echo(t, a, b)
	ok(t, a.Close())
	ok(t, b.Close())

	closePair(pairs[0])
	testutil.Eventually(t, "a place is free", func() bool {
		return client.e.Shards[0].Large.Places() == most-1 && server.e.Shards[0].Large.Places() == most-1
	})
	pairs[0][0], pairs[0][1] = streams(t, server, client)
	check(0, true)
	carry(t, pairs[0][0], pairs[0][1], 1<<20, 1)
	for _, p := range pairs {
		closePair(p)
	}
}

func closePair(p [2]*Stream) {
	_ = p[0].Close()
	_ = p[1].Close()
}

// TestRXE_LargeBlocksOfOneEnd has blocks of different sizes at the two ends.
func TestRXE_LargeBlocksOfOneEnd(t *testing.T) {
	needLogic(t)
	for _, name := range []string{"server", "client"} {
		t.Run(name, func(t *testing.T) {
			opts := []*EngineOptions{nil, {Block: 4 << 10}}
			if name == "client" {
				opts[0], opts[1] = opts[1], opts[0]
			}
			server, client := newEnginesOf(t, func(i int) *EngineOptions { return opts[i] })
			needSRQ(t, server)
			a, b := streams(t, server, client)
			defer closePair([2]*Stream{a, b})
			if isLarge(a) == isLarge(b) {
				t.Error("both ends have large blocks, or none")
			}
			carry(t, a, b, 1<<20+1, 1)
			carry(t, b, a, 1<<20+1, 2)
		})
	}
}

// TestRXE_NoLargeBlocks opens streams where memory, options or buffers leave no large blocks.
func TestRXE_NoLargeBlocks(t *testing.T) {
	needLogic(t)
	for _, opt := range []*EngineOptions{{Block: link.DefaultBlock}, {Memory: link.LargeLeast - 1}, {Manual: true},
		{Pollers: 2, Memory: 2*link.LargeLeast - 1}} {
		_, client := newEngines(t, opt)
		if client.e.Shards[0].Large != nil {
			t.Errorf("%+v has large blocks", *opt)
		}
	}
	server, client := newEngines(t, &EngineOptions{Memory: link.LargeLeast})
	needSRQ(t, server)
	var held []*Buffer
	for {
		b, err := client.Pool().Get(4 << 20)
		if err != nil {
			break
		}
		held = append(held, b)
	}
	a, b := streams(t, server, client)
	if isLarge(a) || !isLarge(b) {
		t.Errorf("large blocks: %v where buffers have the memory, %v where not", isLarge(a), isLarge(b))
	}
	carry(t, a, b, 1<<20, 1)
	for _, buf := range held {
		buf.Release()
	}
	c, d := streams(t, server, client)
	if !isLarge(c) {
		t.Error("no large blocks, though the buffers were given back")
	}
	carry(t, c, d, 1<<20, 1)
	closePair([2]*Stream{a, b})
	closePair([2]*Stream{c, d})
}

// TestRXE_LargeMostConns counts streams with large blocks among the connections of an engine.
func TestRXE_LargeMostConns(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{MaxConns: 2})
	needSRQ(t, server)
	a, b := streams(t, server, client)
	defer closePair([2]*Stream{a, b})
	c, d := conns(t, server, client)
	defer c.Close()
	defer d.Close()
	e, err := client.e.Shard().Reserve(true)
	var limit *ibv.LimitError
	if !errors.As(err, &limit) || limit.Asked != 3 || limit.Limit != 2 {
		t.Errorf("a third connection: %v, %v; want 3 refused, 2 allowed", e, err)
	}
}

// TestRXE_LargeGrown opens streams while the windows of others have all large blocks: those without are streams too.
func TestRXE_LargeGrown(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{Memory: link.LargeLeast})
	needSRQ(t, server)
	large := 0
	for i := range 16 {
		a, b := streams(t, server, client)
		defer closePair([2]*Stream{a, b})
		if isLarge(b) {
			large++
		}
		carry(t, a, b, 4<<20, uint64(i)) // the windows grow
		carry(t, b, a, 4<<20, uint64(i))
	}
	if large == 0 || large == 16 {
		t.Errorf("%d of 16 streams have large blocks, want some", large)
	}
}

// TestRXE_LargeStalled has every stream with large blocks but one wait for its reader. What they have staged must leave
// blocks for the one.
func TestRXE_LargeStalled(t *testing.T) {
	needLogic(t)
	times := 30
	if !testutil.NeedRXE(t).Emulated {
		times = 5 // SoftRoCE copies on processors that are emulated themselves
	}
	server, client := newEngines(t, &EngineOptions{Memory: link.LargeLeast})
	needSRQ(t, server)
	a, b := streams(t, server, client)
	defer closePair([2]*Stream{a, b})
	var stalled []*Stream
	var all sync.WaitGroup
	for client.e.Shards[0].Large.Places() < client.e.Shards[0].Large.Options.MaxConns {
		c, d := streams(t, server, client)
		stalled = append(stalled, c, d)
		all.Go(func() { // until Close
			p := make([]byte, 1<<20)
			for {
				if _, err := c.Write(p); err != nil {
					return
				}
			}
		})
	}
	for i := range times {
		carry(t, a, b, 2<<20, uint64(i))
		carry(t, b, a, 2<<20, uint64(i))
	}
	for _, s := range stalled {
		_ = s.Close()
	}
	all.Wait()
}

// TestRXE_LargeFails has the device refuse what large blocks need: the stream does without.
func TestRXE_LargeFails(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("injects faults: runs on the emulated device only (make test-emu)")
	}
	for _, c := range []struct {
		fault string
		next  bool // whether the next stream has them
	}{
		{"enomem:cmd=create_cq,count=1", false},
		{"enomem:cmd=create_srq,count=1", false},
		{"enomem:cmd=reg_mr,count=1", true},
	} {
		t.Run(c.fault, func(t *testing.T) {
			server, client := newEngines(t, nil)
			needSRQ(t, server)
			r.Fault(t, c.fault+",device="+r.Dev[1])
			for _, want := range []bool{false, c.next} {
				a, b := streams(t, server, client)
				if isLarge(a) != want || !isLarge(b) {
					t.Errorf("large blocks: %v where they were refused, %v where not", isLarge(a), isLarge(b))
				}
				carry(t, a, b, 1<<20, 1)
				closePair([2]*Stream{a, b})
			}
		})
	}
}
