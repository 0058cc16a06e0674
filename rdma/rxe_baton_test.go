package rdma

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
)

// TestRXE_WaitersPoll has a connection in a dialog, whose ends poll while they wait, beside one that sleeps, and sees
// that the poller takes over from them.
func TestRXE_WaitersPoll(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, nil)
	ctx := timeout(t)
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	quiet, sleeper := conns(t, server, client)
	defer quiet.Close()
	defer sleeper.Close()

	p := make([]byte, 8)
	turn := func() {
		for _, way := range [][2]*Conn{{a, b}, {b, a}} {
			ok(t, way[0].Send(ctx, p))
			m, err := way[1].Recv(ctx)
			ok(t, err)
			m.Release()
		}
	}
	talk := func() {
		t.Helper()
		var all sync.WaitGroup
		all.Go(func() {
			for range 300 {
				m, err := b.Recv(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				m.Release()
				if err := b.Send(ctx, p); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for range 300 {
			ok(t, a.Send(ctx, p))
			m, err := a.Recv(ctx)
			ok(t, err)
			m.Release()
		}
		all.Wait()
	}
	talk()
	atRest(t, server.e.Shards[0], client.e.Shards[0])
	for _, e := range []*Engine{server, client} {
		if e.e.Shards[0].Progress.Turns.Load() == 0 {
			t.Error("nobody has polled while waiting")
		}
	}

	got := make(chan error)
	go func() {
		m, err := sleeper.Recv(ctx)
		if err == nil {
			m.Release()
		}
		got <- err
	}()
	talk()
	ok(t, quiet.Send(ctx, p))
	ok(t, <-got)
	turn()
	atRest(t, server.e.Shards[0], client.e.Shards[0])
}

// TestRXE_EventWhilePolling has an event come while a goroutine polls that has already seen that the CQ is armed. The
// poller has to take over.
func TestRXE_EventWhilePolling(t *testing.T) {
	server, client := newEngines(t, &EngineOptions{Spin: -1})
	ctx := timeout(t)
	a, b := conns(t, server, client)
	defer a.Close()
	defer b.Close()
	for range 20 {
		atRest(t, server.e.Shards[0])
		release := server.e.Shards[0].Progress.Hold()
		seen := server.e.Shards[0].CQ.Events()
		if !server.e.Shards[0].Progress.Armed() {
			release()
			continue // an acknowledgement has come
		}
		ok(t, a.Send(ctx, []byte("wake")))
		ok(t, server.e.Shards[0].CQ.Device().WaitEvent(ctx, seen))
		time.Sleep(progress.Absence) // the poller has had the event, too
		release()
		m, err := b.Recv(ctx)
		ok(t, err)
		m.Release()
	}
}

// TestRXE_ClosedBeforeHandled has a peer close the connection, of which rdma_cm tells before anybody polls.
func TestRXE_ClosedBeforeHandled(t *testing.T) {
	server, client := newEngines(t, &EngineOptions{Spin: -1})
	ctx := timeout(t)
	a, b := conns(t, server, client)
	defer a.Close()
	done := make(chan error, 1)
	go func() {
		for {
			if err := a.Send(ctx, make([]byte, 100_000)); err != nil {
				done <- err
				return
			}
		}
	}()
	testutil.Eventually(t, "the window is used up",
		func() bool { return server.Stats().BlocksHeld >= link.StartWindow })
	release := client.e.Shards[0].Progress.Hold()
	ok(t, b.Close())
	<-a.l.Port.Conn.(interface{ Done() <-chan struct{} }).Done()
	select {
	case err := <-done:
		t.Errorf("%v, before what had come was handled", err)
		done <- err
	case <-time.After(10 * progress.Absence):
	}
	release()
	if err := <-done; !errors.Is(err, ErrPeerClosed) {
		t.Errorf("a peer that closes: %v", err)
	}
}

// atRest waits until the CQs are armed, the poller sleeps, and no timer runs: who is idle takes no processor time.
func atRest(t *testing.T, engines ...*link.Shard) {
	t.Helper()
	for _, e := range engines {
		for end := time.Now().Add(testutil.Patience); !e.Progress.AtRest(); time.Sleep(progress.Absence) {
			if time.Now().After(end) {
				t.Fatalf("%v: want it at rest", e.Progress)
			}
		}
	}
}

// TestRXE_WaitersStress mixes one-way traffic and dialogs. The pauses of the dialogs are about as long as a goroutine
// polls before it sleeps.
func TestRXE_WaitersStress(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, &EngineOptions{Spin: 30 * time.Microsecond})
	ctx := timeout(t)
	rounds := 100
	switch {
	case testutil.Full() && testutil.NeedRXE(t).Emulated:
		rounds = 10_000
	case testutil.Full():
		rounds = 1000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	pauses := []time.Duration{0, 0, 0, 0, 20 * time.Microsecond, progress.Absence / 2, progress.Absence,
		2 * progress.Absence}
	var all sync.WaitGroup
	for i := range 6 {
		a, b := conns(t, server, client)
		defer a.Close()
		defer b.Close()
		oneWay := i >= 4
		end := func(c *Conn, sends bool, r *rand.Rand) {
			p := make([]byte, 8)
			for n := range uint64(rounds) {
				for range 2 {
					if sends {
						binary.LittleEndian.PutUint64(p, n)
						if err := c.Send(ctx, p); err != nil {
							t.Error(err)
							return
						}
					} else {
						m, err := c.Recv(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						if got := binary.LittleEndian.Uint64(m.Bytes()); got != n {
							t.Errorf("message %d, want %d", got, n)
						}
						m.Release()
					}
					if oneWay {
						break
					}
					sends = !sends
				}
				if d := pauses[r.IntN(len(pauses))]; d > 0 {
					time.Sleep(d)
				}
			}
		}
		all.Go(func() { end(a, true, rand.New(rand.NewPCG(seed, uint64(i)))) })
		all.Go(func() { end(b, false, rand.New(rand.NewPCG(seed, uint64(i)+100))) })
	}
	all.Wait()
	atRest(t, server.e.Shards[0], client.e.Shards[0])
}
