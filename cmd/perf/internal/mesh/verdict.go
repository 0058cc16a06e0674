package mesh

import (
	"cmp"
	"math"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
)

// judge sorts the pairs, and names what is slow.
func (r *Result) judge(o Outliers) (sheets []*sheet) {
	slices.SortStableFunc(r.Pairs, func(a, b PairResult) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.fromNIC, b.fromNIC),
			cmp.Compare(a.toNIC, b.toNIC))
	})
	for _, f := range Figures {
		s := r.sheet(f, o)
		r.slowPairs(s)
		for k := range parts {
			r.slowHosts(s, k)
		}
		for g := range lists.Each(s.groups) {
			r.Groups = append(r.Groups, r.describe(s, g))
		}
		sheets = append(sheets, s)
	}
	return sheets
}

// slowPairs enters the pairs that are far from the middle of their class.
func (r *Result) slowPairs(s *sheet) {
	of := map[[2]int][]float64{}
	for t := range lists.Each(s.tests) {
		c := s.class(t)
		of[c] = append(of[c], t.d)
	}
	bar := map[[2]int]float64{}
	for c, d := range of {
		if bar[c] = math.Inf(-1); len(d) > 2 { // of two nobody knows which
			bar[c] = -max(s.o.least(s.f), s.o.Deviations*mad(d))
		}
	}
	for t := range lists.Each(s.tests) {
		if c := s.class(t); t.d < bar[c] {
			p := &r.Pairs[t.pair]
			r.SlowPairs = append(r.SlowPairs, SlowPair{Direction: p.Direction, Figure: s.f.Key, Value: t.x,
				Median: s.middle[c]})
		}
	}
}

// slowHosts enters the NICs that are slow in a part. If all of a host are, it is the host.
func (r *Result) slowHosts(s *sheet, k int) {
	medians := lists.Map(s.groups, func(g group) float64 { return s.median(&g, k) })
	order := slices.DeleteFunc(slices.Collect(lists.Each(s.nics)), func(n *entry) bool {
		return len(n.part[k].values) == 0
	})
	slices.SortFunc(order, func(a, b *entry) int { return a.compare(b.end) })
	for i := 0; i < len(order); {
		first := i
		var slow []SlowHost
		var values []float64
		for ; i < len(order) && order[i].host == order[first].host; i++ {
			n := order[i]
			if p := &n.part[k]; p.slow {
				slow = append(slow, SlowHost{Host: r.Hosts[n.host], NIC: n.name, Part: parts[k], Figure: s.f.Key,
					Value: p.median, Median: medians[n.group]})
				values = append(values, p.median)
			}
		}
		if len(slow) == i-first && slow != nil {
			slow = slow[:1]
			slow[0].NIC, slow[0].Value = "", Median(values)
		}
		r.SlowHosts = append(r.SlowHosts, slow...)
	}
}

// median returns the median of the medians of a group in a part.
func (s *sheet) median(g *group, k int) float64 {
	var all []float64
	for _, n := range g.nics {
		if p := &s.nics[n].part[k]; len(p.values) > 0 {
			all = append(all, p.median)
		}
	}
	return Median(all)
}

// mostShown bounds what shows: beyond, nothing would be left of a bandwidth.
const mostShown = 4.6 // a factor of 100

// describe returns what people have to know of a group.
func (r *Result) describe(s *sheet, g *group) Group {
	d := Group{Figure: s.f.Key, Rail: g.rail, Rate: g.rate, NICs: len(g.nics), Median: s.median(g, 0),
		Shows: lists.When(g.shows < mostShown, s.f.share(g.shows))}
	if math.IsNaN(d.Median) {
		d.Median = s.median(g, 1)
	}
	if g.shown {
		d.Hosts = lists.Map(g.nics, func(n int) string { return r.Hosts[s.nics[n].host] })
		slices.Sort(d.Hosts)
		d.Hosts = slices.Compact(d.Hosts)
	}
	return d
}

// Slow counts the hosts and the figures of pairs whose suspicion holds.
func (r *Result) Slow() (hosts, figures int) {
	return lists.Count(r.SlowHosts, func(s *SlowHost) bool { return s.Holds() }), lists.Count(r.SlowPairs, r.Stands)
}

// Stands reports whether the suspicion of a slow pair holds, also because of its hosts.
func (r *Result) Stands(p *SlowPair) bool { return p.Holds() && !r.passed(p) }

// passed reports whether a slow pair was not measured again because it belongs to a host that was, and is not slow.
func (r *Result) passed(p *SlowPair) (yes bool) {
	for h := range lists.Each(r.SlowHosts) {
		if h.has(p.From, p.FromNIC) || h.has(p.To, p.ToNIC) {
			if h.Holds() {
				return false
			}
			yes = p.Confirmed == nil
		}
	}
	return yes
}

// has reports whether a verdict is about a NIC of a host.
func (s *SlowHost) has(host, nic string) bool { return s.Host == host && (s.NIC == "" || s.NIC == nic) }

// explains reports whether a slow pair is one of a slow host or NIC.
func (r *Result) explains(p *SlowPair) bool {
	return slices.ContainsFunc(r.SlowHosts, func(s SlowHost) bool {
		return s.has(p.From, p.FromNIC) || s.has(p.To, p.ToNIC)
	})
}
