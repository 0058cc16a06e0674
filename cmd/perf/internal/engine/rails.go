package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tsc"
)

// RunRails runs a test on each rail, all at once, and sums them up. A rail that fails is named, and the others go on.
func RunRails(ctx context.Context, plans []plan.Plan, hooks Hooks) (*Result, error) {
	clk := tsc.New()
	all := &rails{members: len(plans), round: make(chan struct{}), open: len(plans), tell: hooks.Rails}
	procs := 1
	var runs []*run
	for _, p := range plans {
		name, own := p.Rail(), Hooks{Waiting: hooks.Waiting, Strange: hooks.Strange}
		own.Ready = func(s session.Setup) { all.settled(Rail{Name: name, Setup: s}) }
		if hooks.Interval != nil {
			own.Interval = func(size uint64, i measure.Interval) {
				i.Rail = name
				hooks.Interval(size, i)
			}
		}
		r := newRun(ctx, p, own, clk, all)
		procs += len(r.threads)
		runs = append(runs, r)
	}
	defer calm(procs)()
	gauge := measure.NewGauge(nil, nil)
	began := time.Now()
	errs := make([]error, len(runs))
	var wg sync.WaitGroup
	for i, r := range runs {
		wg.Go(func() {
			errs[i] = r.run()
			if r.links == nil {
				all.settled(Rail{Name: r.plan.Rail(), Err: errs[i]})
			}
			all.leave()
		})
	}
	wg.Wait()
	res := &Result{Started: began, Elapsed: time.Since(began), Clock: clk.String(), Used: gauge.Lap(), Verified: true}
	seen := map[string]bool{}
	var failed []error
	for i, r := range runs {
		name := r.plan.Rail()
		res.Rails = append(res.Rails, Rail{name, r.res.Setup, errs[i]})
		if res.Setup.Local.Device == "" {
			res.Setup = r.res.Setup
		}
		res.Verified = res.Verified && r.res.Verified
		res.Ahead = max(res.Ahead, r.res.Ahead)
		if device := r.res.Setup.Local.Device; !seen[device] {
			seen[device] = true
			res.Used.AddCounters(&r.res.Used)
		}
		if errs[i] != nil {
			failed = append(failed, fmt.Errorf("rail %s: %w", name, errs[i]))
		}
	}
	res.sum(runs, errs, hooks.Size)
	return res, errors.Join(failed...)
}

// sum sums up the sizes of all rails.
func (res *Result) sum(runs []*run, errs []error, done func(measure.Size)) {
	for k := 0; ; k++ {
		s, n := sumRails(runs, errs, func(r *Result) *measure.Size {
			if k < len(r.Sizes) {
				return &r.Sizes[k]
			}
			return nil
		})
		if n == 0 {
			break
		}
		res.Sizes = append(res.Sizes, s)
		if done != nil {
			done(s)
		}
	}
	// What the rails did of the size at which all failed, or were interrupted.
	if s, n := sumRails(runs, errs, func(r *Result) *measure.Size { return r.Partial }); n == len(runs) {
		res.Partial = &s
	}
}

// sumRails sums up the size that pick returns of each rail, or nil. n is how many have it: without one of them there is
// no sum.
func sumRails(runs []*run, errs []error, pick func(*Result) *measure.Size) (sum measure.Size, n int) {
	var parts []measure.Size
	var list []measure.Rail
	for i, r := range runs {
		rail := measure.Rail{Name: r.plan.Rail()}
		if s := pick(r.res); s != nil {
			rail.Size = *s
			parts = append(parts, rail.Size)
		} else if rail.Err = errs[i]; rail.Err == nil {
			rail.Err = errors.New("no figure for this size")
		}
		list = append(list, rail)
	}
	if n = len(parts); n == 0 {
		return sum, 0
	}
	if sum = measure.Sum(parts, runs[0].perTick()); n < len(runs) {
		sum = sum.Unknown()
	}
	sum.Rails = list
	return sum, n
}
