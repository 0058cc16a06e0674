package mesh

import (
	"context"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
)

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
	done, lost := make(chan outcome), make(chan int, len(m.present))
	for i, at := range m.present {
		defer context.AfterFunc(m.hosts[at].ctx, func() { lost <- i })()
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

func (m *coordinator) done(r PairResult) {
	r.at = time.Now()
	m.res.Pairs = append(m.res.Pairs, r)
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
