package mesh

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
)

// reachMessages is how many small messages show that two NICs reach each other: the fewest that a test has.
const reachMessages = 5

// reach sends a few small messages between each two NICs that are to be measured, which shows both directions. NICs
// that are dark are named, and not measured.
func (m *coordinator) reach() {
	order, rounds := schedule.Rounds, m.Rounds
	if !m.Order.Whole() {
		order, rounds = m.Order, 0
	}
	back := m.Order.Whole() || m.Order == schedule.Bisection // each pair has both directions
	m.look(schedule.New(order, len(m.present), rounds), order, back)
}

// reachAgain is reach in the middle, because NICs that worked fail: of few pairs, as what matters is who reaches whom.
func (m *coordinator) reachAgain() {
	rounds := mostAfresh
	if m.Rounds > 0 {
		rounds = min(rounds, m.Rounds)
	}
	m.look(schedule.New(schedule.Rounds, len(m.present), rounds), schedule.Rounds, true)
}

const (
	usualReach = 3 * time.Second
	mostAfresh = 8 // other hosts that each host is tried with in the middle
)

// look has the pairs of a schedule tried, and then those that tell a NIC that reaches nobody from a fabric in parts.
func (m *coordinator) look(s *schedule.Schedule, order schedule.Order, back bool) {
	m.reaches++
	m.dark.ask()
	defer m.dark.calm()
	limit := cmp.Or(m.Reach, min(m.Timeout, usualReach))
	p := m.Latency
	p.Duration, p.Iters, p.Silence = 0, reachMessages, limit
	small := func(from, to int) []PairResult {
		return m.each(from, to, func(ctx context.Context, from, to *member, r *PairResult) error {
			_, err := m.test(ctx, from, to, r, p, limit)
			return err
		})
	}
	began := time.Now()
	n := len(m.present)
	m.begin("reach", s, order.Together(n) == 1, func(from, to int) []PairResult {
		if back && from > to {
			return nil
		}
		return small(from, to)
	}, func(PairResult) {})
	for m.ctx.Err() == nil {
		list := m.untold()
		if len(list) == 0 {
			break
		}
		m.begin("reach", schedule.Together(n, list), false, small, func(PairResult) {})
	}
	m.only = nil
	m.conclude()
	m.res.Reach += time.Since(began).Seconds()
}

// conclude names the NICs that are dark, and the parts of the fabric.
func (m *coordinator) conclude() {
	if m.ctx.Err() != nil {
		return
	}
	dark, parts := m.dark.conclude()
	m.named(dark)
	if len(parts) == 0 {
		return
	}
	m.res.Splits = nil
	for _, p := range parts {
		nic := func(e end) HostNIC {
			h := m.hosts[e.host]
			return HostNIC{Host: h.Name, NIC: lists.When(m.res.many, h.nics.name(e.nic))}
		}
		s := Split{Error: p.why, Sides: lists.Map(p.sides, func(side []end) []HostNIC { return lists.Map(side, nic) })}
		m.res.Splits = append(m.res.Splits, s)
		if m.Split != nil {
			m.Split(s)
		}
	}
}

// untold returns pairs that have to be tried before there is a verdict, many of a NIC at the same time.
func (m *coordinator) untold() (list []schedule.Pair) {
	number, room := map[int]int{}, map[int]int{}
	for i, at := range m.present {
		if h := m.hosts[at]; h.ctx.Err() == nil {
			number[at], room[at] = i, min(atOnce, h.agent.Most)
		}
	}
	m.only = map[[2]end]bool{}
	seen := map[schedule.Pair]bool{}
	for _, p := range m.dark.open(room, func(a, b end) bool {
		r := rail{a.nic, b.nic}
		return slices.Contains(m.rails(a.host, b.host), r) && m.apart(a.host, b.host, r) == ""
	}) {
		m.only[p] = true
		pair := schedule.Pair{From: number[p[0].host], To: number[p[1].host]}
		if !seen[pair] {
			seen[pair], list = true, append(list, pair)
		}
	}
	return list
}
