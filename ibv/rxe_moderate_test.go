package ibv

import (
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// moderatedLoop is a QP that is connected to itself, on a CQ that is never polled before an event. SoftRoCE moderates
// nothing: there the refusal is looked at, and there is no QP.
func moderatedLoop(t *testing.T) *side {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	s := newSide(t, 0, &CQOptions{Spin: None})
	if !rxe.Emulated && !rxe.Hardware {
		wantErr(t, s.cq.Moderate(2, time.Millisecond), ErrNotSupported, rxe.Dev[0], "each completion")
		return nil
	}
	qp := s.newQP(t, nil)
	ok(t, qp.Connect(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
	return s
}

func TestRXE_Moderate(t *testing.T) {
	s := moderatedLoop(t)
	if s == nil {
		return
	}
	ex := s.dev.attr.Ex
	if ex == nil || ex.CQModerationMaxCount == 0 || ex.CQModerationMaxPeriod == 0 {
		t.Fatalf("no limits: %+v", ex)
	}
	longest := time.Duration(ex.CQModerationMaxPeriod) * time.Microsecond
	wantErr(t, s.cq.Moderate(1, longest+1), nil, "cq_period", s.dev.Name())

	// event arms the CQ, posts n work requests at once, and returns how long their event took.
	event := func(n int) time.Duration {
		t.Helper()
		w := s.cq.sleepers.join()
		defer s.cq.sleepers.part(w)
		ok(t, s.cq.Arm(false))
		wrs := make([]SendWR, n)
		for i := range wrs {
			wrs[i] = SendWR{Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 8)}, Remote: s.mr.Remote().At(64)}
		}
		start := time.Now()
		post(t, s.qp, wrs...)
		select {
		case <-w.ch:
		case <-time.After(testutil.Patience):
			t.Fatalf("no event for %d completions", n)
		}
		took := time.Since(start)
		for range n {
			s.good(t, 0)
		}
		return took
	}
	// A busy machine may be late for an event that comes at once, but not for each.
	atOnce := func(n int) {
		t.Helper()
		testutil.Eventually(t, "an event before the period ends", func() bool { return event(n) < longest })
	}
	const count = 4
	ok(t, s.cq.Moderate(count, longest))
	for range 3 {
		if took := event(count - 1); took < longest {
			t.Errorf("an event for %d completions after %v, want %d or %v", count-1, took, count, longest)
		}
	}
	atOnce(count)
	ok(t, s.cq.Moderate(1, longest))
	atOnce(1)
	ok(t, s.cq.Moderate(count, longest))
	ok(t, s.cq.Moderate(0, 0))
	atOnce(1)
}

// TestRXE_ModerateWait sleeps while fewer completions come than are announced together: Wait misses none.
func TestRXE_ModerateWait(t *testing.T) {
	s := moderatedLoop(t)
	if s == nil {
		return
	}
	ok(t, s.cq.Moderate(16, time.Millisecond))
	for id := range uint64(50) {
		post(t, s.qp, SendWR{ID: id, Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 8)},
			Remote: s.mr.Remote().At(64)})
		s.good(t, id)
	}
}
