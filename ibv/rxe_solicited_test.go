package ibv

import (
	"runtime"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_SolicitedWait sleeps on a CQ of solicited events: what is not solicited makes no event, and Wait returns it
// with what is.
func TestRXE_SolicitedWait(t *testing.T) {
	s := newSide(t, 0, &CQOptions{Spin: None, Solicited: true})
	rxe := testutil.NeedRXE(t)
	qp := s.newQP(t, nil)
	ok(t, qp.Connect(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
	send := func(flags SendFlags) {
		post(t, qp, SendWR{Opcode: OpSend, Flags: flags, SGEs: []SGE{s.mr.SGE(0, 8)}})
	}
	both, seen := 0, s.cq.events.Load()
	for round := range uint32(10) {
		recv(t, qp, RecvWR{SGEs: []SGE{s.mr.SGE(64, 64)}}, RecvWR{SGEs: []SGE{s.mr.SGE(128, 64)}})
		got := make(chan int, 1)
		go func() {
			n, err := s.cq.Wait(timeout(t), make([]WC, 4))
			if err != nil {
				t.Error(err)
			}
			got <- n
		}()
		testutil.Eventually(t, "Wait sleeps", func() bool {
			s.cq.sleepers.waitMu.Lock()
			defer s.cq.sleepers.waitMu.Unlock()
			return len(s.cq.sleepers.waiters) > 0
		})
		send(0)
		time.Sleep(2 * time.Millisecond) // an event would come meanwhile
		// The event of an earlier round comes late if Wait saw a message before it slept.
		if n := s.cq.events.Load() - seen; n > round {
			t.Fatalf("%d events after %d solicited messages", n, round)
		}
		send(Solicited | Signaled)
		n := <-got // less than 3 if it saw some before it slept, or before the others were there
		if n > 1 {
			both++
		}
		for wcs := make([]WC, 4); n < 3; runtime.Gosched() {
			more, err := s.cq.Poll(wcs)
			ok(t, err)
			n += more
		}
	}
	if both == 0 {
		t.Error("Wait has never returned a message that is not solicited with one that is")
	}
	_, err := s.dev.CreateCQ(1, &CQOptions{Solicited: true, NoEvents: true})
	wantErr(t, err, nil, "Solicited")
}
