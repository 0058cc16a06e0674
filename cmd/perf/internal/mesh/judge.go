package mesh

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
)

// sheet judges the NICs by a figure of all pairs.
func (r *Result) sheet(f Figure, o Outliers) *sheet {
	s := &sheet{f: f, o: o, middle: map[[2]int]float64{}, limits: shares{}}
	at := map[end]int{}
	for i := range r.Pairs {
		p := &r.Pairs[i]
		x := f.Of(p)
		if !(x > 0) || math.IsInf(x, 0) || p.starved() {
			continue
		}
		t := test{pair: i, x: x, good: -f.Worse * math.Log(x)}
		for k, name := range []string{p.FromNIC, p.ToNIC} {
			e := p.end(k)
			n, ok := at[e]
			if !ok {
				n = len(s.nics)
				at[e] = n
				s.nics = append(s.nics, entry{end: e, name: name, kind: r.kind(e, name)})
			}
			t.nics[k] = n
		}
		s.tests = append(s.tests, t)
	}
	s.divide(o)
	s.center()
	for g := range lists.Each(s.groups) {
		s.suspect(g)
	}
	for g := range lists.Each(s.groups) {
		s.judge(g)
	}
	return s
}

// kind returns the kind of a NIC.
func (r *Result) kind(e end, name string) kind {
	return kind{rate: r.rates[e], rail: lists.When(r.many, name)}
}

// class returns the groups of the two ends of a pair.
func (s *sheet) class(t *test) [2]int {
	a, b := s.nics[t.nics[0]].group, s.nics[t.nics[1]].group
	return [2]int{min(a, b), max(a, b)}
}

// center finds the middle of each class, which is the median of the medians of NICs, and the effects of the NICs.
func (s *sheet) center() {
	of := map[[2]int]map[int][]float64{} // each class, each NIC
	for t := range lists.Each(s.tests) {
		c := s.class(t)
		if of[c] == nil {
			of[c] = map[int][]float64{}
		}
		for _, n := range t.nics {
			of[c][n] = append(of[c][n], t.x)
		}
	}
	for c, list := range of {
		s.middle[c] = Median(lists.Map(slices.Collect(maps.Values(list)), Median))
	}
	raw := make([][2][]float64, len(s.nics))
	for t := range lists.Each(s.tests) {
		t.d = -s.f.Worse * math.Log(t.x/s.middle[s.class(t)])
		for k, n := range t.nics {
			p := &s.nics[n].part[k]
			p.values, raw[n][k] = append(p.values, t.d), append(raw[n][k], t.x)
		}
	}
	for n := range s.nics {
		for k := range parts {
			p := &s.nics[n].part[k]
			slices.SortFunc(p.values, func(a, b float64) int { return cmp.Compare(b, a) })
			p.effect, p.median = Median(p.values), Median(raw[n][k])
		}
	}
}

// suspect finds the NICs whose effects are far from those of their group.
func (s *sheet) suspect(g *group) {
	for k := range parts {
		var effects []float64
		for _, n := range g.nics {
			if len(s.nics[n].part[k].values) > 0 {
				effects = append(effects, s.nics[n].part[k].effect)
			}
		}
		middle := Median(effects)
		g.spread[k] = mad(effects)
		far := func(x float64) bool {
			return len(effects) >= fewest && middle-x > max(s.o.least(s.f), s.deviations(g)*g.spread[k])
		}
		for _, n := range g.nics {
			if p := &s.nics[n].part[k]; len(p.values) > 0 {
				p.far, p.whole = far(p.effect), far(p.values[(len(p.values)+3)/4-1])
				p.effect -= middle
			}
		}
	}
}

// judge names the suspects of a group whose values are too low for chance.
func (s *sheet) judge(g *group) {
	in := map[int]bool{}
	for _, n := range g.nics {
		in[n] = true
	}
	for t := range lists.Each(s.tests) {
		if a, b := t.nics[0], t.nics[1]; (in[a] || in[b]) && !s.nics[a].part[0].whole && !s.nics[b].part[1].whole {
			g.tests = append(g.tests, t)
		}
	}
	slices.SortFunc(g.tests, func(a, b *test) int { return cmp.Compare(a.d, b.d) })
	g.pool = g.without(-1)
	g.noise = mad(g.pool)
	var counts []int
	for _, n := range g.nics {
		e := &s.nics[n]
		for k := range parts {
			p := &e.part[k]
			counts = append(counts, len(p.values))
			p.far = p.far && -p.effect > s.deviations(g)*g.error(len(p.values))
			p.slow = p.far && low(p.values, g.without(n, k).bars(len(p.values), s.limits))
		}
		if a, b := &e.part[0], &e.part[1]; a.far && b.far {
			both := slices.Concat(a.values, b.values)
			slices.SortFunc(both, func(a, b float64) int { return cmp.Compare(b, a) })
			together := low(both, g.without(n, 0, 1).bars(len(both), s.limits))
			a.slow, b.slow = a.slow || together, b.slow || together
		}
	}
	slices.Sort(counts)
	g.shows = s.power(g, counts[len(counts)/10])
}

// deviations is how far a slow NIC is from its group: further from a small one, whose deviation is uncertain.
func (s *sheet) deviations(g *group) float64 { return s.o.Deviations * (1 + 4/float64(len(g.nics))) }

// without returns the pool without the values of a NIC in some parts: they are compared with those of others.
func (g *group) without(nic int, in ...int) pool {
	p := make(pool, 0, len(g.tests))
	for _, t := range g.tests {
		if !slices.ContainsFunc(in, func(k int) bool { return t.nics[k] == nic }) {
			p = append(p, t.d)
		}
	}
	return p
}

// error is how far the median of n values scatters if nothing but their noise matters.
func (g *group) error(n int) float64 { return 1.2533 * g.noise / math.Sqrt(float64(n)) }

// Of so many NICs with a loss, drawn by chance, so many would be named.
const (
	drawn   = 500
	named95 = 0.96
)

// power returns the least loss of a NIC with n values that shows in 95 % of runs, as a logarithm. It draws the values
// from those of the good ones, and needs no more of a NIC than to send or to receive slowly.
func (s *sheet) power(g *group, n int) float64 {
	bars := g.pool.bars(n, s.limits)
	if len(g.nics) < fewest || len(bars) == 0 {
		return math.Inf(1)
	}
	spread := max(g.spread[0], g.spread[1])
	own := math.Sqrt(max(0, spread*spread-g.error(n)*g.error(n)))
	least := max(s.o.least(s.f), s.deviations(g)*max(spread, g.error(n)))
	r := rand.New(rand.NewPCG(uint64(n), uint64(len(g.pool))))
	needs, values := make([]float64, drawn), make([]float64, n)
	for i := range needs {
		self := own * r.NormFloat64()
		for k := range values {
			values[k] = g.pool[r.IntN(len(g.pool))] + self
		}
		slices.SortFunc(values, func(a, b float64) int { return cmp.Compare(b, a) })
		need := math.Inf(1)
		for _, b := range bars {
			need = min(need, values[b.nth-1]-b.below)
		}
		needs[i] = max(need, least+Median(values))
	}
	slices.Sort(needs)
	return needs[int(named95*drawn)]
}
