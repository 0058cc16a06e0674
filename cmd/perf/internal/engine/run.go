package engine

import (
	"context"
	"errors"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/loop"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tsc"
)

// Run runs one test to its end. The Result is there even with an error, with what was measured before.
func Run(ctx context.Context, p plan.Plan, hooks Hooks) (*Result, error) {
	r := newRun(ctx, p, hooks, tsc.Shared(), nil)
	err := r.run()
	return r.res, err
}

// newRun prepares a test, which is one of several if there are rails.
func newRun(ctx context.Context, p plan.Plan, hooks Hooks, clk *tsc.Clock, rails *rails) *run {
	r := &run{plan: p, asked: ctx, hooks: hooks, clk: clk, rails: rails, window: &measure.Window{},
		res: &Result{Started: time.Now()}}
	if rails != nil {
		r.window = &rails.window
	}
	for range p.ThreadCount() {
		r.threads = append(r.threads, &thread{mon: loop.NewMonitor(clk, p.Peer.Timeout, !p.Bandwidth())})
	}
	return r
}

// run opens the session, takes the steps, and closes it.
func (r *run) run() (err error) {
	p := &r.plan
	ctx, cancel := context.WithCancelCause(r.asked)
	defer cancel(nil)
	r.ctx, r.Session = ctx, session.New(ctx, r.plan)
	defer context.AfterFunc(ctx, func() { r.abort(context.Cause(ctx)) })()
	defer func() {
		if err != nil && r.links != nil {
			err = errors.Join(err, r.PortDown(err))
		}
		if r.asked.Err() != nil {
			r.Leave(grace)
		}
		err = errors.Join(err, r.Close())
		r.res.Setup = r.Setup()
		r.res.Elapsed = time.Since(r.res.Started)
		r.res.Clock = r.clk.String()
	}()
	if err := r.Open(r.hooks.Waiting, r.hooks.Strange); err != nil {
		return err
	}
	r.plan = r.Plan()
	r.threads = r.threads[:p.ThreadCount()]
	defer r.watchDevice(cancel)()
	if p.Load.SizeList != nil && !r.Terms().Ours {
		return errors.New("list of sizes (--sizes): the peer is a stock perftest, which has only all sizes (-a)")
	}
	if p.Load.Rounds > 1 && !r.Terms().Ours {
		return errors.New("rounds (--rounds): the peer is a stock perftest, which has one; run it several times")
	}
	if p.Report.ReportBoth && p.Verb.Consumes() && !p.ByCount() && !r.Terms().Ours {
		return errors.New("reports of both ends (--report-both): the peer is a stock perftest, which reports no " +
			"send by time (-D); give iterations (-n)")
	}
	if err := r.checkCredits(); err != nil {
		return err
	}
	r.makeLinks()
	if r.hooks.Ready != nil {
		r.hooks.Ready(r.Setup())
	}
	if r.rails == nil {
		procs := 1
		if n := len(r.threads); n > 1 {
			procs = n + 1 // and one for what watches them
		}
		defer calm(procs)()
	}
	var counters func() map[string]uint64
	if p.Report.Counters || p.Report.CounterNames != nil {
		counters = r.Counters
	}
	whole := measure.NewGauge(counters, p.Report.CounterNames)
	r.gauge = measure.NewGauge(counters, p.Report.CounterNames)
	defer func() { r.res.Used = whole.Lap() }()
	steps := r.bandwidth
	if !p.Bandwidth() {
		steps = r.latency
	}
	if err := steps(); err == errOver {
		return nil
	} else if err != nil {
		return err
	}
	return r.verify()
}
