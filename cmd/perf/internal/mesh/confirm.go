package mesh

import (
	"cmp"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
)

// partners is with how many good hosts a suspect is measured again.
const partners = 3

// mostAgain bounds how many slow hosts, and how many slow pairs of others, are measured again: the worst.
const mostAgain = 100

// factor is by how much a figure is worse than its median.
func factor(name string, value, median float64) float64 {
	if name == figuresOfPair[0].name {
		return median / value
	}
	return value / median
}

// confirm measures suspects again, one pair at a time: slow hosts and NICs with good ones, slow pairs of others as they
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
	m.only = map[[2]end]bool{}
	add := func(p schedule.Pair, which func(PairResult) bool) {
		from, to := m.present[p.From], m.present[p.To]
		for _, rail := range m.rails(from, to) {
			if r := m.result(from, to, rail); which(r) {
				m.only[[2]end{r.end(0), r.end(1)}] = true
				if !slices.Contains(list, p) {
					list = append(list, p)
				}
			}
		}
	}
	ofSlow := func(r PairResult) bool {
		return slices.ContainsFunc(m.res.SlowHosts, func(s SlowHost) bool {
			return s.has(r.From, r.FromNIC) || s.has(r.To, r.ToNIC)
		})
	}
	slices.SortStableFunc(suspects, func(a, b int) int {
		return cmp.Compare(rank[m.hosts[m.present[b]].Name], rank[m.hosts[m.present[a]].Name])
	})
	m.res.HostsNotAgain = max(0, len(suspects)-mostAgain)
	for n, s := range suspects[:min(mostAgain, len(suspects))] {
		for k := range min(partners, len(good)) {
			g := good[(n*partners+k)%len(good)]
			add(schedule.Pair{From: s, To: g}, ofSlow)
			add(schedule.Pair{From: g, To: s}, ofSlow)
		}
	}
	number := map[string]int{}
	for i, at := range m.present {
		number[m.hosts[at].Name] = i
	}
	var others []*SlowPair
	for i := range m.res.SlowPairs {
		if s := &m.res.SlowPairs[i]; !m.res.explains(s) {
			others = append(others, s)
		}
	}
	slices.SortStableFunc(others, func(a, b *SlowPair) int {
		return cmp.Compare(factor(b.Figure, b.Value, b.Median), factor(a.Figure, a.Value, a.Median))
	})
	seen := map[[4]string]bool{} // a pair may have two slow figures
	for _, s := range others {
		k := [4]string{s.From, s.FromNIC, s.To, s.ToNIC}
		if !seen[k] && len(seen) < mostAgain {
			add(schedule.Pair{From: number[s.From], To: number[s.To]}, s.is)
		} else if !seen[k] {
			m.res.PairsNotAgain++
		}
		seen[k] = true
	}
	if len(list) > 0 {
		m.begin("confirm", schedule.List(len(m.present), list), true, m.pair, func(r PairResult) {
			m.res.Again = append(m.res.Again, r)
		})
		m.res.rejudge(v)
	}
	m.only = nil
}

// has reports whether a verdict is about a NIC of a host.
func (s *SlowHost) has(host, nic string) bool { return s.Host == host && (s.NIC == "" || s.NIC == nic) }

// is reports whether two NICs are those of the pair.
func (s *SlowPair) is(p PairResult) bool {
	return s.From == p.From && s.To == p.To && s.FromNIC == p.FromNIC && s.ToNIC == p.ToNIC
}

// explains reports whether a slow pair is one of a slow host or NIC.
func (r *Result) explains(p *SlowPair) bool {
	return slices.ContainsFunc(r.SlowHosts, func(s SlowHost) bool {
		return s.has(p.From, p.FromNIC) || s.has(p.To, p.ToNIC)
	})
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
				takesPart := s.Part == parts[0] && s.has(p.From, p.FromNIC) ||
					s.Part == parts[1] && s.has(p.To, p.ToNIC)
				if x := f.of(p); x > 0 && takesPart && !p.starved() {
					values = append(values, x)
				}
			}
			if len(values) > 0 {
				x := Median(values)
				yes := v[f.name].hosts[slices.Index(parts, s.Part)](x)
				s.Again = Again{x, &yes}
			}
		}
		for i := range r.SlowPairs {
			s := &r.SlowPairs[i]
			for k := range r.Again {
				if x := f.of(&r.Again[k]); x > 0 && !r.Again[k].starved() && s.Figure == f.name && s.is(r.Again[k]) {
					yes := v[f.name].pair(x)
					s.Again = Again{x, &yes}
				}
			}
		}
	}
}
