package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
)

// Run measures all pairs. The error is about what keeps it from beginning, or ctx; failures in the middle, and hosts
// that do not come as long as two do, are in the Result.
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.CheckFiles(); err != nil {
		if c.Listener != nil {
			c.Listener.Close()
		}
		return nil, err
	}
	c.Beat, c.Rails = cmp.Or(c.Beat, agent.DefaultBeat), cmp.Or(c.Rails, SameRail)
	c.Bandwidth.Silence, c.Latency.Silence = c.Timeout, c.Timeout
	m := &coordinator{Config: c, ctx: ctx, begun: make(chan struct{}), roster: roster.New(c.Launcher, c.Expect),
		dark: newDarkness(), reached: map[string]error{},
		res: &Result{Schema: Schema, Version: Version, Order: c.Order, Rounds: c.Rounds, Program: c.Program,
			Started: time.Now(), Test: Test{c.Bandwidth.Verb.String(), c.Bandwidth.Size, c.Latency.Size},
			Pairs: []PairResult{}, SlowPairs: []SlowPair{}, SlowHosts: []SlowHost{}, LostHosts: []LostHost{},
			Until: c.Until, Groups: []Group{}}}
	link, end := context.WithCancel(context.WithoutCancel(ctx))
	m.link = link
	defer func() {
		m.dismiss()
		end()
		if c.Listener != nil {
			c.Listener.Close()
		}
		m.watch.Wait()
	}()
	m.own.look()
	defer tick.Every(watchTick, m.own.look)()
	err := m.gather()
	close(m.begun)
	if err != nil {
		return m.res, err
	}
	m.measure()
	m.until()
	sheets := m.res.judge(c.Outliers)
	if c.Confirm {
		m.confirm(sheets)
	}
	m.settle()
	m.stalls()
	m.res.busy()
	m.res.Sort()
	m.res.Elapsed = time.Since(m.res.Started).Seconds()
	return m.res, cmp.Or(context.Cause(ctx), m.left)
}

// dismiss ends all agents.
func (m *coordinator) dismiss() {
	var wg sync.WaitGroup
	for _, h := range m.hosts {
		if h.agent != nil && h.ctx.Err() == nil {
			wg.Go(func() { h.agent.Refuse("") })
		}
	}
	wg.Wait()
}

// measure runs the pairs of the order.
func (m *coordinator) measure() {
	for i, h := range m.hosts {
		m.res.Hosts = append(m.res.Hosts, h.Name)
		if h.agent != nil {
			m.present = append(m.present, i)
		}
	}
	m.res.came += len(m.present)
	m.equip()
	m.settleHomes()
	if m.Reach > 0 {
		m.reach()
	}
	n := len(m.present)
	s := schedule.New(m.Order, n, m.Rounds)
	m.begin("", s, m.Order.Together(n) == 1, m.pair, m.done)
	for m.uncertain() {
		m.reachAgain()
		m.begin("", s, m.Order.Together(n) == 1, m.pair, m.done)
	}
	if m.Reach == 0 && m.dark.fails() {
		m.reachAgain()
	}
	if m.Order.Whole() && m.Rounds == 0 && m.ctx.Err() == nil {
		m.absent()
	}
	if m.unmet(); m.ctx.Err() != nil {
		m.res.planned = m.planned()
	}
	m.unpaired()
}

// absent enters the pairs of hosts that never were there.
func (m *coordinator) absent() {
	for from, f := range m.hosts {
		for to, t := range m.hosts {
			if from != to && (f.agent == nil || t.agent == nil) {
				m.take(m.skipped(from, to), m.done)
			}
		}
	}
}

// settle enters the hosts that were lost. If the mesh was told to end, others may have been told a moment before.
func (m *coordinator) settle() {
	last := time.Time{}
	for _, h := range m.hosts {
		if h.agent != nil && h.ctx.Err() != nil && h.lostAt.IsZero() {
			h.lostAt = time.Now()
		}
		if h.lostAt.After(last) {
			last = h.lostAt
		}
	}
	if wait := settles - time.Since(last); wait > 0 && m.ctx.Err() == nil {
		tick.Wait(m.ctx, wait)
	}
	for _, h := range m.hosts { // a launcher may end the agents one after the other
		if h.agent != nil && h.ctx.Err() != nil && h.lostAt.IsZero() && m.ctx.Err() == nil && m.res.without(h.Name) {
			h.lostAt = time.Now()
		}
	}
	cut := m.cutOff()
	if !cut.IsZero() {
		m.left = errors.New("rdmaperf mesh itself lost all hosts at the same time; no host is blamed: check its " +
			"network")
	}
	blameless := func(at time.Time) bool {
		return !cut.IsZero() && at.After(cut.Add(-6*m.Beat)) || m.own.before(at, 2*m.Beat) > 0 ||
			m.ctx.Err() != nil && time.Since(at) < 2*settles
	}
	for _, h := range m.hosts {
		if gap := m.own.before(h.lostAt, 2*m.Beat); h.agent != nil && gap > 0 {
			m.left = fmt.Errorf("rdmaperf mesh itself stood still for %.1f s, and agents gave it up; no host is blamed",
				gap.Seconds())
		}
		if h.agent != nil && !h.lostAt.IsZero() && !blameless(h.lostAt) {
			m.leave(LostHost{Host: h.Name, Kind: Lost, Error: context.Cause(h.ctx).Error()})
		}
	}
	for i := range m.res.Pairs {
		if p := &m.res.Pairs[i]; p.Error != "" && blameless(p.at) {
			p.Error, p.Skipped = interrupted, true
		}
	}
}
