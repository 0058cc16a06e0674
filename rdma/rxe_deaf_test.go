package rdma

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/pace"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestRXE_Deaf has peers that grant credits and post no receive, so the adapter repeats the first frame for ever. A
// connection to one ends with an error that names it, also if the peer sends frames of its own. Close takes no longer
// than Linger. The blocks come back, and another connection of the engine works on.
func TestRXE_Deaf(t *testing.T) {
	defer func(was bool) { link.OwnQueues = was }(link.OwnQueues)
	for _, own := range []bool{link.OwnQueues, true} {
		link.OwnQueues = own
		for _, noisy := range []bool{false, true} {
			t.Run(fmt.Sprintf("own queues %v, noisy %v", own, noisy), func(t *testing.T) { deaf(t, noisy) })
		}
	}
}

func deaf(t *testing.T, noisy bool) {
	server, client := newEngines(t, &EngineOptions{Memory: 8 << 20})
	e := server.e.Shards[0]
	e.TickMu.Lock() // the test keeps the time
	defer e.TickMu.Unlock()
	friend, honest := connsAlive(t, server, client, None)
	defer friend.Close()
	defer honest.Close()
	l, err := Listen(timeout(t), testutil.NeedRXE(t).IP[0]+":0",
		&Options{Engine: server, KeepAlive: 3 * time.Second, Linger: 50 * time.Millisecond})
	ok(t, err)
	defer l.Close()
	dial := func() (*attacker, *Conn) {
		a, err := attackDeaf(t, l.Addr().String(), goodHello(wire.Messages))
		ok(t, err)
		victim, err := l.Accept(timeout(t))
		ok(t, err)
		t.Cleanup(func() { _ = victim.CloseNow() })
		ok(t, a.post(wire.Header{Kind: wire.Limit, Limit: wire.MaxWindow}, 0))
		testutil.Eventually(t, "the victim has the credits", func() bool {
			victim.l.Mu.Lock()
			defer victim.l.Mu.Unlock()
			return victim.l.Send.Left() == wire.MaxWindow
		})
		return a, victim
	}
	message := make([]byte, 20_000)

	_, victim := dial()
	ok(t, victim.Send(t.Context(), message))
	var undelivered *UndeliveredError
	if err := victim.Close(); !errors.As(err, &undelivered) || undelivered.Frames != 1 {
		t.Errorf("Close: %v, want 1 frame that is not delivered", err)
	}

	a, victim := dial()
	ended := make(chan error, 1)
	go func() {
		for {
			if err := victim.Send(t.Context(), message); err != nil {
				ended <- err
				return
			}
		}
	}()
	locked := func(f func() bool) bool {
		victim.l.Mu.Lock()
		defer victim.l.Mu.Unlock()
		return f()
	}
	testutil.Eventually(t, "a frame is under way", func() bool {
		return locked(func() bool { return victim.l.Queue.Posted > 0 })
	})
	for beats := 0; !locked(func() bool { return victim.l.End.Ending }); beats++ {
		if beats == 3+4*3 {
			t.Fatal("the connection goes on after five times KeepAlive")
		}
		if noisy && a.post(wire.Header{Kind: wire.Ping, Flags: wire.FlagIgnore, Limit: wire.MaxWindow}, 0) != nil {
			t.Error("the victim has no receive for a PING")
		}
		ok(t, friend.Send(timeout(t), message))
		for _, c := range []*Conn{honest, friend} {
			m, err := c.Recv(timeout(t))
			ok(t, err)
			if c == honest {
				ok(t, c.Send(timeout(t), m.Bytes()))
			}
			m.Release()
		}
		e.BeatLocked()
	}
	var gone *PeerError
	if err := <-ended; !errors.As(err, &gone) || !errors.Is(err, pace.ErrSilent) || gone.FramesSent == 0 ||
		gone.FramesAcked != 0 {
		t.Errorf("Send: %v; want %v", err, pace.ErrSilent)
	}
}
