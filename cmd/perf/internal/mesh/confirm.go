package mesh

import (
	"cmp"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
)

// partners is with how many good hosts a suspect is measured again.
const partners = 3

// mostAgain bounds how many slow hosts, and how many slow pairs of other hosts, are measured again: the worst.
const mostAgain = 100

// factor is by how much a figure is worse than its median.
func factor(name string, value, median float64) float64 {
	if name == figuresOfPair[0].name {
		return median / value
	}
	return value / median
}

// confirm measures suspects again, one pair at a time: slow hosts with good ones, slow pairs of other hosts as they
// are.
func (m *coordinator) confirm(v verdict) {
	var suspects, good []int
	rank := map[string]float64{} // of slow hosts
	for i := range m.res.SlowHosts {
		s := &m.res.SlowHosts[i]
		rank[s.Host] = max(rank[s.Host], factor(s.Figure, s.Value, s.Median))
	}
	slow := func(name string) bool { return rank[name] > 0 }
	inPair := map[string]bool{}
	for i := range m.res.SlowPairs {
		p := &m.res.SlowPairs[i]
		inPair[p.From], inPair[p.To] = true, true
	}
	for i, at := range m.present {
		switch h := m.hosts[at]; {
		case h.ctx.Err() != nil:
		case slow(h.Name):
			suspects = append(suspects, i)
		case !inPair[h.Name]:
			good = append([]int{i}, good...)
		default:
			good = append(good, i)
		}
	}
	var list []schedule.Pair
	add := func(p schedule.Pair) {
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	slices.SortStableFunc(suspects, func(a, b int) int {
		return cmp.Compare(rank[m.hosts[m.present[b]].Name], rank[m.hosts[m.present[a]].Name])
	})
	m.res.HostsNotAgain = max(0, len(suspects)-mostAgain)
	for n, s := range suspects[:min(mostAgain, len(suspects))] {
		for k := range min(partners, len(good)) {
			g := good[(n*partners+k)%len(good)]
			add(schedule.Pair{From: s, To: g})
			add(schedule.Pair{From: g, To: s})
		}
	}
	number := map[string]int{}
	for i, at := range m.present {
		number[m.hosts[at].Name] = i
	}
	var others []*SlowPair
	for i := range m.res.SlowPairs {
		if p := &m.res.SlowPairs[i]; !slow(p.From) && !slow(p.To) {
			others = append(others, p)
		}
	}
	slices.SortStableFunc(others, func(a, b *SlowPair) int {
		return cmp.Compare(factor(b.Figure, b.Value, b.Median), factor(a.Figure, a.Value, a.Median))
	})
	pairs := map[schedule.Pair]bool{} // a pair may have two slow figures
	for _, s := range others {
		p := schedule.Pair{From: number[s.From], To: number[s.To]}
		if !pairs[p] && len(pairs) < mostAgain {
			add(p)
		} else if !pairs[p] {
			m.res.PairsNotAgain++
		}
		pairs[p] = true
	}
	if len(list) == 0 {
		return
	}
	if m.Begun != nil {
		m.Begun(len(m.present), len(list))
	}
	m.play(schedule.List(len(m.present), list), func(r PairResult) { m.res.Again = append(m.res.Again, r) })
	m.res.rejudge(v)
}

// rejudge compares what was measured again with what was measured of all.
func (r *Result) rejudge(v verdict) {
	for _, f := range figuresOfPair {
		for i := range r.SlowHosts {
			s := &r.SlowHosts[i]
			if s.Figure != f.name {
				continue
			}
			var values []float64
			for k := range r.Again {
				p := &r.Again[k]
				takesPart := s.Part == parts[0] && p.From == s.Host || s.Part == parts[1] && p.To == s.Host
				if x := f.of(p); x > 0 && takesPart {
					values = append(values, x)
				}
			}
			if len(values) > 0 {
				x := median(values)
				yes := v[f.name].hosts[slices.Index(parts, s.Part)](x)
				s.Again = Again{x, &yes}
			}
		}
		for i := range r.SlowPairs {
			s := &r.SlowPairs[i]
			for k := range r.Again {
				p := &r.Again[k]
				if x := f.of(p); x > 0 && s.Figure == f.name && p.From == s.From && p.To == s.To {
					yes := v[f.name].pair(x)
					s.Again = Again{x, &yes}
				}
			}
		}
	}
}
