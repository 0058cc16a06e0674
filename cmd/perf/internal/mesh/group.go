package mesh

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
)

// fewest is how many NICs make a group. One that is slow is none.
const fewest = 3

// kind is what NICs have to have in common to be compared with each other.
type kind struct {
	rail string  // empty: of any name
	rate float64 // of the link, in bits per second; 0: not known
}

// group is NICs that are compared with each other.
type group struct {
	kind
	shown bool  // its figures tell it from others
	nics  []int // of the sheet

	spread [2]float64 // of the effects, where the NICs send and where they receive
	pool   pool
	noise  float64 // of the pool
	shows  float64 // the least loss that would have shown in 95 % of runs, as a logarithm
}

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

// split enters NICs of one kind as a group or, if their link's rate is not known, as the groups that their figures show.
func (s *sheet) split(k kind, nics []int, shown bool, o Outliers) {
	if k.rate == 0 {
		if lower, upper := s.halves(nics, o); lower != nil {
			s.split(k, upper, true, o)
			s.split(k, lower, true, o)
			return
		}
	}
	s.groups = append(s.groups, group{kind: k, shown: shown, nics: nics})
}

// halves splits NICs in two groups if their figures do: there is a gap between the best figures of some and those of
// the others, each group has enough members that are close together, and nearly all pairs with one of the lower group
// are low, while those of the upper one are not. So neither a slow NIC is a group, nor those that have met slow paths.
func (s *sheet) halves(nics []int, o Outliers) (lower, upper []int) {
	in := make(map[int]int, len(nics)) // 1 or 2: of the lower, of the upper group
	values := map[int][]float64{}
	for _, n := range nics {
		in[n] = 1
	}
	for i := range s.tests {
		t := &s.tests[i]
		if a, b := t.nics[0], t.nics[1]; in[a] > 0 && in[b] > 0 {
			values[a], values[b] = append(values[a], t.good), append(values[b], t.good)
		}
	}
	type best struct {
		nic int
		x   float64
	}
	var order []best
	for _, n := range nics {
		if v := values[n]; len(v) > 0 {
			slices.Sort(v)
			order = append(order, best{n, v[(3*len(v)-1)/4]})
		}
	}
	slices.SortFunc(order, func(a, b best) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.nic, b.nic)) })
	n := len(order)
	least, at, gap := max(fewest, (n+7)/8), 0, 0.0
	for i := least; i <= n-least; i++ {
		if d := order[i].x - order[i-1].x; d > gap {
			at, gap = i, d
		}
	}
	if at == 0 {
		return nil, nil
	}
	spread := func(list []best) (middle, deviation float64) {
		var v []float64
		for _, b := range list {
			v = append(v, b.x)
		}
		return Median(v), mad(v)
	}
	low, scatter := spread(order[:at])
	high, other := spread(order[at:])
	if d := high - low; d <= o.least(s.f) || d <= o.Deviations*max(scatter, other) {
		return nil, nil
	}
	cut := (order[at].x + order[at-1].x) / 2
	for i, b := range order {
		if i >= at {
			in[b.nic] = 2
			upper = append(upper, b.nic)
		} else {
			lower = append(lower, b.nic)
		}
	}
	var pairs, right [2]int // of those of the upper group alone, and of the others
	for i := range s.tests {
		t := &s.tests[i]
		a, b := in[t.nics[0]], in[t.nics[1]]
		if a == 0 || b == 0 {
			continue
		}
		if both := a == 2 && b == 2; both {
			pairs[0]++
			right[0] += btoi(t.good > cut)
		} else {
			pairs[1]++
			right[1] += btoi(t.good < cut)
		}
	}
	for i := range pairs {
		if 4*right[i] < 3*pairs[i] {
			return nil, nil
		}
	}
	return lower, upper
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
