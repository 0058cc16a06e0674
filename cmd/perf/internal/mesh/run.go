package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Config describes a mesh.
type Config struct {
	Hosts    []Host       // standing agents, which are dialed
	Listener net.Listener // instead: where agents dial. It is closed
	Launcher roster.Place // what is known of those that dial, such as Slurm's list
	Expect   int          // how many there are; 0: nobody says
	Launched <-chan error // gets nil when they are launched, and the error of what launches them; may be nil

	Order     Order
	Rounds    int     // above 0: pairs of each host
	Until     float64 // above 0: more rounds follow until so small a loss would show
	Rails     Rails
	Reach     time.Duration // for a message, before anything is measured; 0: nobody looks
	Confirm   bool          // suspects are measured again
	Bandwidth wire.Params
	Latency   wire.Params
	Token     agent.Token
	Timeout   time.Duration
	Patience  time.Duration // for hosts that do not come
	Beat      time.Duration // between heartbeats; a host is lost after three
	Stall     time.Duration // after which a host or a message stood still; 0: nobody looks
	CPUWait   float64       // share of the time of a test that it may wait for CPUs; 0: any
	Strict    bool          // without one host, no mesh
	Outliers  Outliers
	Program   string // this one, with its version

	// May be nil, and are never called twice at a time.
	Awaited  func(said string)                   // now and then while hosts are awaited
	Begun    func(pass string, hosts, pairs int) // of hosts; the pass that measures all has no name
	Start    func(from, to string)
	Done     func([]PairResult) // of two hosts
	Dark     func(DarkNIC)
	Split    func(Split)
	Lost     func(LostHost) // of those that are missing before the first pair
	Stranger func(from net.Addr, why error)
}

// coordinator is a mesh at work.
type coordinator struct {
	Config
	ctx   context.Context // ends when the mesh is told to end
	link  context.Context // ends when the mesh is over
	begun chan struct{}
	watch sync.WaitGroup

	meeting atomic.Int32     // connections whose ends do not know each other yet
	patient bool             // they were waited for
	reached map[string]error // how far some came, by address
	roster  *roster.Roster
	hosts   []*member
	doubts  []doubted
	left    error // why agents left, if it is not their fault
	own     watch
	res     *Result

	homes   map[string]int  // of addresses: how many hosts have each
	present []int           // the hosts that came, by their place among all
	only    map[[2]end]bool // what is measured in this pass; nil: all
	dark    *darkness
	reaches int // passes that found out who reaches whom
	repeats repeats
	fault   fault
}

// Run measures all pairs. The error is about what keeps it from beginning, or ctx; failures in the middle, and hosts
// that do not come as long as two do, are in the Result.
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.CheckFiles(); err != nil {
		if c.Listener != nil {
			c.Listener.Close()
		}
		return nil, err
	}
	if c.Beat == 0 {
		c.Beat = agent.DefaultBeat
	}
	c.Rails = cmp.Or(c.Rails, SameRail)
	c.Bandwidth.Silence, c.Latency.Silence = c.Timeout, c.Timeout
	m := &coordinator{Config: c, ctx: ctx, begun: make(chan struct{}), roster: roster.New(c.Launcher, c.Expect),
		dark: newDarkness(),
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
	m.watch.Go(func() { m.own.run(link) })
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

// planned is with how many others a host is measured.
func (m *coordinator) planned() int {
	n := len(m.present) - 1
	switch {
	case !m.Order.Whole():
		return 1
	case m.Rounds > 0:
		return min(m.Rounds, n)
	}
	return n
}

// begin runs a pass: a schedule of the hosts that came, or what is left of it. alone is set if each has one test at a
// time.
func (m *coordinator) begin(pass string, s *schedule.Schedule, alone bool, pair func(from, to int) []PairResult,
	enter func(PairResult)) {
	for _, at := range m.present {
		m.hosts[at].agent.Alone = alone
	}
	if m.Begun != nil {
		m.Begun(pass, len(m.present), s.Left())
	}
	m.play(s, func() bool { return pass == "" && m.uncertain() }, pair, enter)
}

// outcome has the results of a pair of hosts that ran.
type outcome struct {
	pair schedule.Pair
	list []PairResult
}

// play runs a schedule of the hosts that came until it is over or to pause, and enters each result.
func (m *coordinator) play(s *schedule.Schedule, pause func() bool, pair func(from, to int) []PairResult,
	enter func(PairResult)) {
	done, lost, over := make(chan outcome), make(chan int), make(chan struct{})
	defer close(over)
	for i, at := range m.present {
		go func() {
			select {
			case <-m.hosts[at].ctx.Done():
			case <-over:
				return
			}
			select {
			case lost <- i:
			case <-over:
			}
		}()
	}
	for running := 0; ; {
		var begin, skip []schedule.Pair
		if m.ctx.Err() == nil && !pause() {
			begin, skip = s.Next()
		}
		for _, p := range skip {
			m.take(m.skipped(m.present[p.From], m.present[p.To]), enter)
		}
		for _, p := range begin {
			from, to := m.present[p.From], m.present[p.To]
			running++
			if m.Start != nil {
				m.Start(m.hosts[from].Name, m.hosts[to].Name)
			}
			go func() { done <- outcome{p, pair(from, to)} }()
		}
		if running == 0 {
			return
		}
		select {
		case o := <-done:
			running--
			s.Done(o.pair)
			m.take(o.list, enter)
		case i := <-lost:
			h := m.hosts[m.present[i]]
			if h.lostAt.IsZero() {
				h.lostAt = time.Now()
			}
			s.Lose(i)
		}
	}
}

// take takes the results of a pair of hosts.
func (m *coordinator) take(list []PairResult, enter func(PairResult)) {
	for _, r := range list {
		if !r.Skipped && !r.aside {
			m.dark.note(r.end(0), r.end(1), r.Error, !r.unmet)
		}
		enter(r)
	}
	if m.Done != nil {
		m.Done(list)
	}
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
		select {
		case <-m.ctx.Done():
		case <-time.After(wait):
		}
	}
	for _, h := range m.hosts { // a launcher may end the agents one after the other
		if h.agent != nil && h.ctx.Err() != nil && h.lostAt.IsZero() && m.ctx.Err() == nil && m.res.without(h.Name) {
			h.lostAt = time.Now()
		}
	}
	cut := m.cutOff()
	if !cut.IsZero() {
		m.left = errors.New("perf mesh itself lost all hosts at the same time; no host is blamed: check its network")
	}
	blameless := func(at time.Time) bool {
		return !cut.IsZero() && at.After(cut.Add(-6*m.Beat)) || m.own.before(at, 2*m.Beat) > 0 ||
			m.ctx.Err() != nil && time.Since(at) < 2*settles
	}
	for _, h := range m.hosts {
		if gap := m.own.before(h.lostAt, 2*m.Beat); h.agent != nil && gap > 0 {
			m.left = fmt.Errorf("perf mesh itself stood still for %.1f s, and agents gave it up; no host is blamed",
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

func (m *coordinator) done(r PairResult) {
	r.at = time.Now()
	m.res.Pairs = append(m.res.Pairs, r)
}
