package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// guard runs a loop in each thread while it watches the connection to the peer, and reports
// progress. The context ends when the loop is to end.
func (r *run) guard(size, want uint64, loop func(ctx context.Context, i int) error) error {
	if r.rails != nil {
		if err := r.rails.meet(r.ctx, r.patience()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	var left atomic.Pointer[departure]
	stopWatch := r.Watch(func(err error) {
		d := &departure{why: err}
		wait := grace
		if d.certain() {
			wait = 0
		}
		d.timer = time.AfterFunc(wait, func() {
			r.abort(err)
			cancel(err)
		})
		left.Store(d)
	}, func() {
		for _, t := range r.threads {
			t.mon.Spoke()
		}
	})
	r.restart()
	stopProgress := r.progress(size, want)
	stopWatchdog := r.watchdog(cancel)
	for _, t := range r.threads {
		t.mon.Begin()
	}
	began := time.Now()
	err := r.each(cancel, func(i int) error { return loop(ctx, i) })
	r.ran = time.Since(began)
	r.readClock()
	stopProgress()
	stopWatchdog()
	stopWatch()
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx) // a sleep for completions was ended for a reason
	}
	err = r.Explain(err)
	if d := left.Load(); d != nil {
		err = d.explain(err)
	}
	return err
}

// departure is the end of the connection to the peer during a run.
type departure struct {
	why   error
	timer *time.Timer // ends the loops
}

// certain reports whether the peer has no part in the run any more. One that just closed the connection may have done
// its own.
func (d *departure) certain() bool {
	return errors.Is(d.why, wire.ErrInterrupted) || errors.Is(d.why, wire.ErrSilent)
}

// explain returns how a run ended, with what the peer did.
func (d *departure) explain(err error) error {
	early := d.timer.Stop()
	switch {
	case err == nil:
		return nil
	case errors.Is(d.why, wire.ErrInterrupted):
		return d.why // whatever failed by that
	case early && errors.Is(err, ibv.WCRetryExcErr.Err()):
		return fmt.Errorf("%w: %v", d.why, err) // without its advice: there is nobody to acknowledge
	case early:
		return fmt.Errorf("%w; %w", err, wire.ErrClosed)
	}
	return err
}

// progress calls the hook now and then, until the function that it returns.
func (r *run) progress(size, want uint64) (stop func()) {
	if r.hooks.Progress == nil {
		return func() {}
	}
	return tick.Every(200*time.Millisecond, func() {
		r.hooks.Progress(Progress{Size: size, Done: r.moved().Total(), Want: want, Left: r.left()})
	})
}

// left returns the rest of a run by time, all of it while the peer has not come.
func (r *run) left() time.Duration {
	d := r.plan.Load.Duration
	if begun := r.begun(); begun != 0 {
		d -= time.Duration(float64(r.clk.Now()-begun) * r.clk.Rate())
	}
	return max(d, 0)
}

// watchdog ends a run by events that stalls: a loop that sleeps cannot see it.
func (r *run) watchdog(cancel context.CancelCauseFunc) (stop func()) {
	if !r.plan.Queues.Events {
		return func() {}
	}
	last := make([]measure.Count, len(r.threads))
	for i, t := range r.threads {
		last[i] = t.count.Load()
	}
	return tick.Every(r.plan.Peer.Timeout, func() {
		for i, t := range r.threads {
			now := t.count.Load()
			if now == last[i] && !t.over.Load() && (now.Total() > 0 || r.Meets() || r.plan.Client()) {
				cancel(t.mon.Stalled())
			}
			last[i] = now
		}
	})
}
