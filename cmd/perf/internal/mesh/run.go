package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Config describes a mesh.
type Config struct {
	Hosts     []Host
	Order     Order
	Bandwidth wire.Params
	Latency   wire.Params
	Token     agent.Token
	Timeout   time.Duration
	Patience  time.Duration
	Outliers  Outliers
	Program   string           // this one, with its version
	Done      func(PairResult) // may be nil; never called twice at a time
	Lost      func(LostHost)   // may be nil; of those that could not be reached, before the first pair
}

// coordinator is a mesh at work.
type coordinator struct {
	Config
	hosts []*member
	mu    sync.Mutex
	res   *Result
}

// member is a host; its context ends with its agent.
type member struct {
	Host
	ctx  context.Context
	lose context.CancelCauseFunc
}

// Run measures all pairs. The error is about what keeps it from beginning, or ctx; failures in the middle, and hosts
// that cannot be reached as long as two can, are in the Result.
func Run(ctx context.Context, c Config) (*Result, error) {
	m := &coordinator{Config: c, res: &Result{Schema: Schema, Version: Version, Order: c.Order, Program: c.Program,
		Started: time.Now(), Test: Test{c.Bandwidth.Verb.String(), c.Bandwidth.Size, c.Latency.Size},
		Pairs: []PairResult{}, SlowPairs: []SlowPair{}, SlowHosts: []SlowHost{}, LostHosts: []LostHost{}}}
	ctx, end := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer end()
	clients, err := m.hold(ctx)
	for _, cl := range clients {
		if cl != nil {
			defer cl.Close()
		}
	}
	if err != nil {
		return m.res, err
	}
	for i, cl := range clients {
		if cl == nil {
			continue
		}
		watchers.Go(func() {
			cl.Gone()
			if ctx.Err() == nil {
				m.hosts[i].lose(errors.New("its agent was stopped, or failed"))
			}
		})
	}
	for _, round := range c.Order.Plan(len(m.hosts)) {
		var wg sync.WaitGroup
		for _, p := range round {
			wg.Go(func() { m.done(m.pair(ctx, p)) })
		}
		wg.Wait()
		if ctx.Err() != nil {
			break
		}
	}
	for _, h := range m.hosts {
		m.res.Hosts = append(m.res.Hosts, h.Name)
		if err := context.Cause(h.ctx); err != nil && err != context.Cause(ctx) {
			m.res.LostHosts = append(m.res.LostHosts, LostHost{h.Name, err.Error()})
		}
	}
	m.res.judge(c.Outliers)
	m.res.Elapsed = time.Since(m.res.Started).Seconds()
	return m.res, context.Cause(ctx)
}

// hold meets all agents, and keeps a connection to each that shows when it dies. A host that cannot be reached has
// none.
func (m *coordinator) hold(ctx context.Context) ([]*agent.Client, error) {
	clients, errs := make([]*agent.Client, len(m.Hosts)), make([]error, len(m.Hosts))
	about := make([]agent.About, len(m.Hosts))
	var wg sync.WaitGroup
	for i, h := range m.Hosts {
		mb := &member{Host: h}
		mb.ctx, mb.lose = context.WithCancelCause(ctx)
		m.hosts = append(m.hosts, mb)
		wg.Go(func() {
			cl, err := agent.Dial(ctx, h.Addr, h.Port, m.Token, m.Timeout, m.Patience)
			if err == nil {
				if about[i], err = cl.Hold(m.Timeout); err != nil {
					cl.Close()
				}
			}
			if err != nil {
				errs[i] = err
				return
			}
			clients[i] = cl
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return clients, err
	}
	var wrong, lost []error
	for i, err := range errs {
		h := m.hosts[i]
		if need := m.together(); err == nil && about[i].Most < need {
			err = fmt.Errorf("host %s: it runs %d tests at a time, this mesh needs %d: give it --max-clients %d, "+
				"or the mesh --order rounds", h.Name, about[i].Most, need, need)
			wrong = append(wrong, err)
		} else if errors.Is(err, agent.ErrToken) || errors.Is(err, agent.ErrNoAgent) ||
			errors.Is(err, agent.ErrVersion) {
			wrong = append(wrong, fmt.Errorf("host %s: %w", h.Name, err))
		} else if err != nil {
			h.lose(err)
			lost = append(lost, fmt.Errorf("host %s: %w", h.Name, err))
		}
	}
	if len(m.hosts)-len(lost) < 2 {
		wrong = append(wrong, lost...)
	}
	wrong = append(wrong, m.twice(about)...)
	if wrong != nil {
		return clients, errors.Join(wrong...)
	}
	for i, err := range errs {
		if err != nil && m.Lost != nil {
			m.Lost(LostHost{m.hosts[i].Name, err.Error()})
		}
		if p := about[i].Program; err == nil && p != m.Program {
			m.res.Others = append(m.res.Others, OtherProgram{m.hosts[i].Name, p})
		}
	}
	return clients, nil
}

// twice names hosts that are one agent by two names.
func (m *coordinator) twice(about []agent.About) (errs []error) {
	seen := map[string]string{}
	for i, a := range about {
		if a.ID == "" {
			continue
		}
		if first, ok := seen[a.ID]; ok {
			errs = append(errs, fmt.Errorf("hosts %s and %s are the same agent; remove one of them", first,
				m.hosts[i].Name))
			continue
		}
		seen[a.ID] = m.hosts[i].Name
	}
	return errs
}

// together is how many tests one host has at a time.
func (m *coordinator) together() int {
	if m.Order == All {
		return 2 * (len(m.Hosts) - 1)
	}
	return 1
}

// figures has the parts that are read of the output of perf --json.
type figures struct {
	Results []struct {
		Bits float64 `json:"bandwidth_bits_per_second"`
		P50  float64 `json:"latency_p50_ns"`
	} `json:"results"`
}

// pair measures one pair, bandwidth and latency.
func (m *coordinator) pair(ctx context.Context, p Pair) PairResult {
	from, to := m.hosts[p.From], m.hosts[p.To]
	r := PairResult{From: from.Name, To: to.Name, from: p.From, to: p.To}
	for _, h := range []*member{from, to} {
		if h.ctx.Err() != nil {
			r.Error, r.Skipped = "host "+h.Name+" is lost", true
			return r
		}
	}
	whole := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(from.ctx, cancel)()
	defer context.AfterFunc(to.ctx, cancel)()
	bw, err := m.test(ctx, from, to, m.Bandwidth)
	if err == nil {
		r.Bits = bw.Results[0].Bits
		bw, err = m.test(ctx, from, to, m.Latency)
	}
	if err == nil {
		r.P50 = bw.Results[0].P50
	}
	if err != nil {
		r.Error = err.Error()
		select { // of a host and its test, the test may be known to be dead first
		case <-from.ctx.Done():
		case <-to.ctx.Done():
		case <-time.After(lossSettles):
		}
	}
	if err != nil && whole.Err() != nil {
		r.Error, r.Skipped = "interrupted", true
		return r
	}
	for _, h := range []*member{from, to} {
		if err != nil && h.ctx.Err() != nil {
			r.Error = "host " + h.Name + " was lost during the test"
		}
	}
	return r
}

const lossSettles = time.Second

// test runs one test between two agents.
func (m *coordinator) test(ctx context.Context, from, to *member, p wire.Params) (f figures, err error) {
	limit := m.Timeout + 2*p.Duration
	server, err := agent.Dial(ctx, to.Addr, to.Port, m.Token, m.Timeout, m.Patience)
	if err != nil {
		return f, err
	}
	defer server.Close()
	port, err := server.Server(p, limit)
	if err != nil {
		return f, err
	}
	client, err := agent.Dial(ctx, from.Addr, from.Port, m.Token, m.Timeout, m.Patience)
	if err != nil {
		return f, err
	}
	defer client.Close()
	out, err := client.Client(p, to.Addr, port, 4*limit)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(out, &f); err != nil {
		return f, fmt.Errorf("agent %s: %w", from.Name, err)
	}
	if len(f.Results) != 1 || !plausible(f.Results[0].Bits) || !plausible(f.Results[0].P50) {
		return f, fmt.Errorf("agent %s: no figure in its result", from.Name)
	}
	return f, nil
}

func plausible(v float64) bool { return v >= 0 && !math.IsInf(v, 0) && !math.IsNaN(v) }

func (m *coordinator) done(r PairResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.res.Pairs = append(m.res.Pairs, r)
	if m.Done != nil {
		m.Done(r)
	}
}
