package mesh

import (
	"context"
	"errors"
)

const interrupted = "interrupted"

func (m *coordinator) result(from, to int, r rail) PairResult {
	a, b := m.hosts[from], m.hosts[to]
	return PairResult{Direction: Direction{a.Name, b.Name, a.nics.name(r.from), b.nics.name(r.to)},
		from: from, to: to, fromNIC: max(r.from, 0), toNIC: max(r.to, 0), many: m.res.many}
}

// skipped is a pair of hosts that does not run, as one is lost.
func (m *coordinator) skipped(from, to int) (list []PairResult) {
	lost := m.hosts[from]
	if lost.ctx.Err() == nil {
		lost = m.hosts[to]
	}
	for _, rail := range m.rails(from, to) {
		if m.wanted(from, to, rail) {
			r := m.result(from, to, rail)
			r.Error, r.Skipped = "host "+lost.Name+" is lost", true
			list = append(list, r)
		}
	}
	return list
}

// wanted reports whether two NICs are measured in this pass.
func (m *coordinator) wanted(from, to int, r rail) bool {
	return m.only == nil || m.only[[2]end{{from, max(r.from, 0)}, {to, max(r.to, 0)}}]
}

// pair measures bandwidth and latency between the NICs of two hosts.
func (m *coordinator) pair(from, to int) []PairResult {
	return m.each(from, to, func(ctx context.Context, from, to *member, r *PairResult) error {
		f, err := m.test(ctx, from, to, r, m.Bandwidth, 0)
		if err == nil {
			r.Bits = f.Bits
			f, err = m.test(ctx, from, to, r, m.Latency, 0)
		}
		if err == nil {
			r.P50, r.P99, r.Max = f.P50, f.P99, f.Max
		}
		return err
	})
}

// each measures the NICs of two hosts, one rail after the other.
func (m *coordinator) each(at, other int, measure func(context.Context, *member, *member, *PairResult) error,
) (list []PairResult) {
	from, to := m.hosts[at], m.hosts[other]
	for _, rail := range m.rails(at, other) {
		if !m.wanted(at, other, rail) {
			continue
		}
		r := m.result(at, other, rail)
		switch dark := m.unreached(at, other, rail); {
		case m.ctx.Err() != nil:
			r.Error, r.Skipped = interrupted, true
		case from.ctx.Err() != nil || to.ctx.Err() != nil:
			list = append(list, m.skipped(at, other)[len(list):]...)
			return list
		case dark != "":
			r.Error, r.Skipped = dark, true
		default:
			if r.Error = m.apart(at, other, rail); r.Error != "" {
				r.aside = true
			} else {
				m.one(from, to, &r, measure)
			}
		}
		list = append(list, r)
	}
	return list
}

// one measures one rail.
func (m *coordinator) one(from, to *member, r *PairResult,
	measure func(context.Context, *member, *member, *PairResult) error) {
	ctx, cancel := context.WithCancelCause(m.ctx)
	defer cancel(nil)
	for _, h := range []*member{from, to} {
		defer context.AfterFunc(h.ctx, func() { cancel(errGone) })()
	}
	err := measure(ctx, from, to, r)
	if err == nil {
		return
	}
	r.Error = err.Error()
	busy := (*busyError)(nil)
	r.unmet, r.aside = unmet(err), errors.As(err, &busy)
	m.ask(from, to)
	for _, h := range []*member{from, to} {
		if h.ctx.Err() != nil {
			r.Error, r.aside = "host "+h.Name+" was lost during the test", true
		}
	}
	if m.ctx.Err() != nil {
		r.Error, r.Skipped = interrupted, true
	}
}

// settleHomes counts how many hosts have each address.
func (m *coordinator) settleHomes() {
	m.homes = map[string]int{}
	for _, at := range m.present {
		for _, p := range prefixes(m.hosts[at].agent.Addrs) {
			m.homes[p.Addr().String()]++
		}
	}
}
