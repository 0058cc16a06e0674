package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// guard runs a loop while it watches the connection to the peer, and reports
// progress. The context ends when the loop is to end.
func (r *run) guard(size, want uint64, loop func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	var timer atomic.Pointer[time.Timer]
	stopWatch := r.Watch(func(err error) {
		timer.Store(time.AfterFunc(grace, func() {
			r.mon.Abort(err)
			cancel(err)
		}))
	}, r.mon.Spoke)
	stopProgress := r.progress(size, want)
	stopWatchdog := r.watchdog(cancel)
	r.mon.Begin()
	began := time.Now()
	err := loop(ctx) // not locked to its thread: it passes through Go's scheduler by itself
	r.ran = time.Since(began)
	stopProgress()
	stopWatchdog()
	stopWatch()
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx) // a sleep for completions was ended for a reason
	}
	err = r.Explain(err)
	if tm := timer.Load(); tm != nil {
		if tm.Stop() && err != nil {
			err = fmt.Errorf("%w; the peer has closed its connection", err)
		}
	}
	return err
}

// progress calls the hook now and then, until the function that it returns.
func (r *run) progress(size, want uint64) (stop func()) {
	if r.hooks.Progress == nil {
		return func() {}
	}
	r.count.Store(0)
	return every(200*time.Millisecond, func() { r.hooks.Progress(size, r.count.Load(), want) })
}

// watchdog ends a run by events that stalls: a loop that sleeps cannot see it.
func (r *run) watchdog(cancel context.CancelCauseFunc) (stop func()) {
	if !r.plan.Events {
		return func() {}
	}
	last := r.count.Load()
	return every(r.plan.Timeout, func() {
		now := r.count.Load()
		if now == last && (now > 0 || r.Meets() || r.plan.Client()) {
			cancel(r.mon.Stalled())
		}
		last = now
	})
}

// every calls f now and then, until the function that it returns.
func every(d time.Duration, f func()) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				f()
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}
