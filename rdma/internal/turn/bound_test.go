package turn

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/internal/deadline"
)

func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deadline.Deadline
		b := Bound{Deadline: &d}
		never := make(chan struct{})
		begin := time.Now()
		d.Set(begin.Add(time.Second))
		if err := b.Wait(never); err != os.ErrDeadlineExceeded || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if err := b.Expired(); err != os.ErrDeadlineExceeded {
			t.Errorf("afterwards: %v", err)
		}
		d.Set(time.Time{})
		if err := b.Expired(); err != nil {
			t.Errorf("without a deadline: %v", err)
		}
		d.Set(time.Now().Add(time.Hour)) // moved while somebody waits
		done := make(chan error)
		go func() { done <- b.Wait(never) }()
		synctest.Wait()
		d.Set(time.Now().Add(-time.Second))
		if err := <-done; err != os.ErrDeadlineExceeded {
			t.Errorf("moved to the past: %v", err)
		}
		d.Set(time.Now().Add(time.Minute))
		var turn Turn
		turn.Init(1)
		turn.Take()
		begin = time.Now()
		if err := turn.Enter(b); err != os.ErrDeadlineExceeded || time.Since(begin) != time.Minute {
			t.Errorf("the turn: %v after %v", err, time.Since(begin))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := (Bound{Ctx: ctx}).Wait(never); err != context.Canceled {
			t.Errorf("a context: %v", err)
		}
	})
}

// TestBoundTimes has waits that end by a context, by a deadline, and by the first of both.
func TestBoundTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		for _, c := range []struct {
			ctx, deadline time.Duration // 0: none
			want          error
			after         time.Duration
		}{
			{1, 0, context.DeadlineExceeded, 1},
			{time.Hour, 0, context.DeadlineExceeded, time.Hour},
			{0, time.Millisecond, os.ErrDeadlineExceeded, time.Millisecond},
			{time.Second, time.Second - 1, os.ErrDeadlineExceeded, time.Second - 1},
			{time.Second, time.Second + 1, context.DeadlineExceeded, time.Second},
		} {
			var b Bound
			began := time.Now()
			if c.ctx > 0 {
				ctx, cancel := context.WithTimeout(t.Context(), c.ctx)
				defer cancel()
				b.Ctx = ctx
			}
			if c.deadline > 0 {
				b.Deadline = new(deadline.Deadline)
				b.Deadline.Set(began.Add(c.deadline))
			}
			if err := b.Wait(never); err != c.want || time.Since(began) != c.after {
				t.Errorf("%+v: %v after %v", c, err, time.Since(began))
			}
			if err := b.Expired(); err != c.want {
				t.Errorf("%+v: then %v", c, err)
			}
		}
	})
}
