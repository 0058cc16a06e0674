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

// Result is the outcome of a test. Sizes holds what was measured until the end,
// or until the error that Run returned.
type Result struct {
	Setup    session.Setup
	Rails    []Rail // if there are several; Setup is the first one's
	Sizes    []measure.Size
	Parts    []measure.Interval // of the size that failed
	Partial  *measure.Size      // what moved of that size before it failed, if enough did for a figure
	Used     measure.Usage
	Verified bool // the payload was checked, and was right
	Ahead    int  // messages at the beginning of each size that are not in its latencies
	Clock    string
	Started  time.Time
	Elapsed  time.Duration
}

// Hooks let the caller follow a test; each may be nil.
type Hooks struct {
	Waiting  func(port int)               // a server listens
	Strange  func(addr string, why error) // something came there that was no client
	Ready    func(session.Setup)          // the queue pairs are connected
	Rails    func([]Rail)                 // of several, those of each that could
	Size     func(measure.Size)           // one size is done
	Interval func(size uint64, i measure.Interval)
	Progress func(Progress) // now and then
}

// Progress is how far a size is.
type Progress struct {
	Size, Done uint64
	Want       uint64        // messages; 0 in a run by time
	Left       time.Duration // of a run by time
}

// run is a session at work.
type run struct {
	*session.Session
	plan    plan.Plan
	asked   context.Context // ends when the run is interrupted
	ctx     context.Context
	hooks   Hooks
	clk     *tsc.Clock
	links   []*loop.Link
	credits []loop.Credit // of the links, if messages need credits
	threads []*thread
	rails   *rails          // nil: there is one
	gauge   *measure.Gauge  // of a size
	window  *measure.Window // of the threads
	ran     time.Duration   // how long the last loop took
	tick    float64         // seconds; see perTick
	res     *Result
}

// patience is how late the peer may be to a meeting. An end that works at the same time may need as long again as this
// end did.
func (r *run) patience() time.Duration {
	if r.plan.Load.Bidirectional {
		return r.plan.Peer.Timeout + r.ran
	}
	return r.plan.Peer.Timeout
}

// grace is how long a run goes on after the peer closed its connection: a stock
// write_lat is gone as soon as its own last message has arrived.
const grace = 2 * time.Second

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

// done takes the result of a size.
func (r *run) done(s measure.Size) {
	s.Used = r.gauge.Lap()
	r.res.Sizes = append(r.res.Sizes, s)
	if r.hooks.Size != nil {
		r.hooks.Size(s)
	}
}
