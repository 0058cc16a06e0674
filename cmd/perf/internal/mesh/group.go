package mesh

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
)

// fewest is how many NICs make a group. One that is slow is none.
const fewest = 3

// divide sorts the NICs into groups: by rail and by the rate of the link and, where nobody knows that, by what the
// figures show. Kinds with few NICs join others: those of a rail its largest group, small rails all others of the rate.
func (s *sheet) divide(o Outliers) {
	size := map[kind]int{}
	main := map[string]kind{} // the largest kind of each rail
	for _, n := range s.nics {
		size[n.kind]++
		if n.rail != "" {
			size[kind{"", n.rate}]++
		}
	}
	for k, n := range size {
		if m, ok := main[k.rail]; !ok || n > size[m] || n == size[m] && k.rate > m.rate {
			main[k.rail] = k
		}
	}
	members := map[kind][]int{}
	for i, n := range s.nics {
		k := n.kind
		for _, wider := range []kind{main[n.rail], {"", n.rate}, {}} {
			if size[k] < fewest {
				k = wider
			}
		}
		members[k] = append(members[k], i)
	}
	kinds := slices.SortedFunc(maps.Keys(members), func(a, b kind) int {
		return cmp.Or(roster.Compare(a.rail, b.rail), cmp.Compare(b.rate, a.rate))
	})
	for _, k := range kinds {
		s.split(k, members[k], false, o)
	}
	for g := range s.groups {
		for _, n := range s.groups[g].nics {
			s.nics[n].group = g
		}
	}
}

// split enters NICs of one kind as a group or, if their link's rate is not known, as those that their figures show.
func (s *sheet) split(k kind, nics []int, shown bool, o Outliers) {
	if k.rate == 0 {
		if parts := s.levels(nics, o); len(parts) > 1 {
			for _, part := range parts {
				s.split(k, part, true, o)
			}
			return
		}
	}
	s.groups = append(s.groups, group{kind: k, shown: shown, nics: nics})
}

// levels splits NICs in groups if their figures do, the best first: there are gaps between the levels, each group has
// enough members that are close together, and of the pairs with an end below a gap most are below it, of the others
// most above. So neither a few slow NICs are a group, nor those that have met slow paths.
func (s *sheet) levels(nics []int, o Outliers) (groups [][]int) {
	values := make(map[int][]float64, len(nics))
	for _, n := range nics {
		values[n] = nil
	}
	var pairs []*test
	for t := range lists.Each(s.tests) {
		a, ok := values[t.nics[0]]
		b, both := values[t.nics[1]]
		if ok && both {
			pairs = append(pairs, t)
			values[t.nics[0]], values[t.nics[1]] = append(a, t.good), append(b, t.good)
		}
	}
	var order []level
	for _, n := range nics {
		if v := values[n]; len(v) > 0 {
			slices.Sort(v)
			order = append(order, level{n, v[(3*len(v)-1)/4]})
		}
	}
	slices.SortFunc(order, func(a, b level) int { return cmp.Or(cmp.Compare(b.x, a.x), cmp.Compare(a.nic, b.nic)) })
	cuts := gaps(order, max(fewest, (len(order)+7)/8), o.least(s.f))
	var middles, spreads []float64
	for i := range cuts[1:] {
		v := lists.Map(order[cuts[i]:cuts[i+1]], func(l level) float64 { return l.x })
		middles, spreads = append(middles, Median(v)), append(spreads, mad(v))
	}
	for i, c := range cuts[1 : len(cuts)-1] {
		if middles[i]-middles[i+1] <= o.Deviations*slices.Max(spreads) || !told(order, c, pairs) {
			return nil
		}
	}
	groups = make([][]int, len(middles))
	for _, n := range nics {
		if len(values[n]) == 0 { // it has met other kinds alone
			groups[0] = append(groups[0], n)
		}
	}
	for i := range middles {
		for _, l := range order[cuts[i]:cuts[i+1]] {
			g := i
			if g > 0 && l.x-middles[i] > max(o.least(s.f), o.Deviations*spreads[i]) {
				g-- // it is one of the better ones, and slow
			}
			groups[g] = append(groups[g], l.nic)
		}
	}
	return groups
}

// gaps returns where levels, the best first, can be split in groups with so many members at least: at the largest gap,
// and at those of half its size. The list begins with 0, and ends with the number of levels.
func gaps(order []level, members int, least float64) (cuts []int) {
	n := len(order)
	cuts = []int{0, n}
	gap := func(i int) float64 { return order[i-1].x - order[i].x }
	var at []int
	for i := members; i <= n-members; i++ {
		if gap(i) > least {
			at = append(at, i)
		}
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(gap(b), gap(a)) })
	for _, i := range at {
		if gap(i) >= gap(at[0])/2 && !slices.ContainsFunc(cuts, func(c int) bool { return max(c-i, i-c) < members }) {
			cuts = append(cuts, i)
		}
	}
	slices.Sort(cuts)
	return cuts
}

// told reports whether the pairs tell the levels before a gap from those behind it.
func told(order []level, gap int, pairs []*test) bool {
	better := map[int]bool{}
	for _, l := range order[:gap] {
		better[l.nic] = true
	}
	cut := (order[gap-1].x + order[gap].x) / 2
	var all, right [2]int
	for _, t := range pairs {
		i := lists.When(better[t.nics[0]] && better[t.nics[1]], 1)
		all[i]++
		right[i] += lists.When((i == 1) == (t.good > cut), 1)
	}
	return 4*right[0] >= 3*all[0] && 4*right[1] >= 3*all[1]
}
