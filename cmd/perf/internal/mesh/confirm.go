package mesh

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
)

const (
	partners    = 4   // good NICs with which a suspect is measured each time
	mostLooks   = 4   // how often it is, until it is confirmed
	mostAgain   = 100 // slow hosts, and slow pairs of others, that are measured again: the worst
	fewControls = 8   // with which a slow pair is compared
	mostCompare = 48  // values that the rank-sum test gets of each side

	// sure is the chance that one look may have to confirm a NIC that is as good as the controls.
	sure = 1e-4
)

// peers has the groups that NICs share if they are compared, one for each figure; -1: they have no figure.
type peers [2]int

// repeat is a pair that is measured alone.
type repeat struct {
	ends    [2]end
	class   [2]peers
	control bool
}

// second measures suspects again.
//
// They run alone with good NICs of their groups. Between their pairs those of two good NICs run alone, the controls.
// So both meet the same load of the fabric, and what changes with time.
type second struct {
	*coordinator
	peers  map[end]peers
	good   map[peers][]end       // NICs that are not suspects
	ready  map[[2]peers][][2]end // pairs for controls
	used   map[[2]peers]int      // controls that were added
	list   []repeat              // to be measured
	ran    []repeated
	closed map[int]bool // slow hosts, by their place in the result, whose verdict is not open
}

// repeated is a repeat with its result.
type repeated struct {
	repeat
	PairResult
}

// confirm measures slow hosts and NICs again, until they are confirmed or have had all looks, and slow pairs of others
// once. What it cannot confirm is in order alone, or scatters too much: a repeat cannot tell that nothing was wrong.
func (m *coordinator) confirm(sheets []*sheet) {
	c := m.second(sheets)
	rank := map[string]float64{}
	for s := range lists.Each(m.res.SlowHosts) {
		rank[s.Host] = max(rank[s.Host], figureOf(s.Figure).Factor(s.Value, s.Median))
	}
	var suspects []int
	for _, at := range m.present {
		if h := m.hosts[at]; rank[h.Name] > 0 && h.ctx.Err() == nil {
			suspects = append(suspects, at)
		}
	}
	slices.SortStableFunc(suspects, func(a, b int) int {
		return cmp.Compare(rank[m.hosts[b].Name], rank[m.hosts[a].Name])
	})
	m.res.HostsNotAgain = max(0, len(suspects)-mostAgain)
	suspects = suspects[:min(mostAgain, len(suspects))]
	for look := range mostLooks {
		for _, at := range suspects {
			c.suspect(at, look)
		}
		if look == 0 {
			c.pairs()
		}
		if len(c.list) == 0 {
			return
		}
		if c.run(); m.ctx.Err() != nil {
			return
		}
		c.compare(look)
	}
}

func (m *coordinator) second(sheets []*sheet) *second {
	c := &second{coordinator: m, peers: map[end]peers{}, good: map[peers][]end{},
		ready: map[[2]peers][][2]end{}, used: map[[2]peers]int{}, closed: map[int]bool{}}
	for i, s := range sheets {
		for e := range lists.Each(s.nics) {
			p, ok := c.peers[e.end]
			if !ok {
				p = peers{-1, -1}
			}
			p[i] = e.group
			c.peers[e.end] = p
		}
	}
	good := map[end]bool{}
	for e, p := range c.peers {
		if h := m.hosts[e.host]; h.ctx.Err() == nil && !c.suspected(e) && m.dark.of(e) == "" {
			good[e], c.good[p] = true, append(c.good[p], e)
		}
	}
	for _, list := range c.good {
		slices.SortFunc(list, end.compare)
		shuffle(list)
	}
	slow := map[Direction]bool{}
	for s := range lists.Each(m.res.SlowPairs) {
		slow[s.Direction] = true
	}
	for p := range lists.Each(m.res.Pairs) {
		if a, b := p.end(0), p.end(1); p.Error == "" && !slow[p.Direction] && good[a] && good[b] {
			k := c.class(a, b)
			c.ready[k] = append(c.ready[k], [2]end{a, b})
		}
	}
	for _, list := range c.ready {
		shuffle(list)
	}
	return c
}

// shuffle puts a list in an order that is the same each time.
func shuffle[T any](list []T) {
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
}

// suspected reports whether a NIC, or its host, is slow.
func (c *second) suspected(e end) bool {
	h := c.hosts[e.host]
	return slices.ContainsFunc(c.res.SlowHosts, func(s SlowHost) bool { return s.has(h.Name, h.nics.name(e.nic)) })
}

func (c *second) class(a, b end) [2]peers {
	x, y := c.peers[a], c.peers[b]
	if slices.Compare(x[:], y[:]) > 0 {
		x, y = y, x
	}
	return [2]peers{x, y}
}

// suspect adds the pairs of a slow host, or of its slow NICs, as long as their verdict is open.
func (c *second) suspect(host, look int) {
	h := c.hosts[host]
	for i := range max(1, len(h.nics)) {
		e, open := end{host, i}, false
		for k := range c.res.SlowHosts {
			open = open || c.res.SlowHosts[k].has(h.Name, h.nics.name(i)) && !c.closed[k]
		}
		if !open {
			continue
		}
		var others []end
		for _, o := range c.good[c.peers[e]] {
			if slices.ContainsFunc(c.rails(host, o.host), func(r rail) bool {
				return max(r.from, 0) == i && max(r.to, 0) == o.nic
			}) {
				others = append(others, o)
			}
		}
		class := c.class(e, e)
		if len(others) == 0 || len(c.ready[class]) == 0 {
			continue // nothing to compare it with
		}
		for k := range partners {
			o := others[(look*partners+k)%len(others)]
			for _, ends := range [][2]end{{e, o}, {o, e}} {
				c.list = append(c.list, repeat{ends, class, false})
				c.control(class)
			}
		}
	}
}

// control adds a pair of good NICs.
func (c *second) control(class [2]peers) {
	if list := c.ready[class]; len(list) > 0 {
		c.list = append(c.list, repeat{list[c.used[class]%len(list)], class, true})
		c.used[class]++
	}
}

// pairs adds the slow pairs of hosts that are not suspects, the worst.
func (c *second) pairs() {
	others := slices.DeleteFunc(slices.Collect(lists.Each(c.res.SlowPairs)), c.res.explains)
	slices.SortStableFunc(others, func(a, b *SlowPair) int {
		return cmp.Compare(figureOf(b.Figure).Factor(b.Value, b.Median), figureOf(a.Figure).Factor(a.Value, a.Median))
	})
	at := map[Direction]*PairResult{}
	for p := range lists.Each(c.res.Pairs) {
		at[p.Direction] = p
	}
	seen := map[*PairResult]bool{} // a pair may have two slow figures
	for _, s := range others {
		p := at[s.Direction]
		if !seen[p] && len(seen) < mostAgain {
			class := c.class(p.end(0), p.end(1))
			c.list = append(c.list, repeat{[2]end{p.end(0), p.end(1)}, class, false})
			for c.control(class); len(c.ready[class]) > 0 && c.used[class] < fewControls; {
				c.control(class)
			}
		} else if !seen[p] {
			c.res.PairsNotAgain++
		}
		seen[p] = true
	}
}

// run measures what was added, one pair at a time.
func (c *second) run() {
	var list []schedule.Pair
	place := map[int]int{}
	for i, at := range c.present {
		place[at] = i
	}
	queue := map[[2]int][]repeat{} // of hosts: a pair of them has several NICs
	for _, r := range c.list {
		from, to := r.ends[0].host, r.ends[1].host
		list = append(list, schedule.Pair{From: place[from], To: place[to]})
		queue[[2]int{from, to}] = append(queue[[2]int{from, to}], r)
	}
	c.list = nil
	next := func(from, to int) (r repeat) {
		k := [2]int{from, to}
		r, queue[k] = queue[k][0], queue[k][1:]
		return r
	}
	var now repeat
	c.begin("confirm", schedule.List(len(c.present), list), true, func(from, to int) []PairResult {
		now = next(from, to)
		c.only = map[[2]end]bool{now.ends: true}
		return c.pair(from, to)
	}, func(r PairResult) {
		if r.Skipped {
			return // a host is lost, and so the pair did not run
		}
		c.ran = append(c.ran, repeated{now, r})
		if now.control {
			c.res.Controls = append(c.res.Controls, r)
		} else {
			c.res.Again = append(c.res.Again, r)
		}
	})
	c.only = nil
}

// compare compares what was measured again with the controls.
func (c *second) compare(look int) {
	for _, f := range Figures {
		control := map[[2]peers][]float64{}
		for r := range lists.Each(c.ran) {
			if r.control && f.Of(&r.PairResult) > 0 && !r.starved() {
				control[r.class] = append(control[r.class], f.Of(&r.PairResult))
			}
		}
		for k := range c.res.SlowHosts {
			if s := &c.res.SlowHosts[k]; s.Figure == f.Key && !c.closed[k] {
				c.closed[k] = c.host(s, f, control) || look == mostLooks-1
			}
		}
		for s := range lists.Each(c.res.SlowPairs) {
			if s.Figure == f.Key && s.Confirmed == nil && !c.res.explains(s) {
				c.onePair(s, f, control)
			}
		}
	}
}

// host compares a slow host or NIC with the controls, and reports whether another look is of no use.
func (c *second) host(s *SlowHost, f Figure, control map[[2]peers][]float64) (over bool) {
	var raw, its, others []float64 // the latter two as logarithms, from the middle of the controls
	classes := map[[2]peers]float64{}
	for r := range lists.Each(c.ran) {
		takesPart := s.Part == parts[0] && s.has(r.From, r.FromNIC) || s.Part == parts[1] && s.has(r.To, r.ToNIC)
		if x := f.Of(&r.PairResult); x > 0 && takesPart && !r.control && !r.starved() && len(control[r.class]) > 0 {
			if _, ok := classes[r.class]; !ok {
				classes[r.class] = Median(control[r.class])
				for _, y := range control[r.class] {
					others = append(others, f.Worse*math.Log(classes[r.class]/y))
				}
			}
			raw, its = append(raw, x), append(its, f.Worse*math.Log(classes[r.class]/x))
		}
	}
	if its == nil {
		return true
	}
	middles := slices.Collect(maps.Values(classes))
	least := c.Outliers.least(f) / 2
	loss := -Median(its)
	yes := loss > least && below(some(its), some(others)) <= sure
	s.Again = Again{Median(raw), Median(middles), &yes}
	return yes || len(its) > partners && loss < least
}

// some returns at most mostCompare of values, spread over all.
func some(v []float64) []float64 {
	if len(v) <= mostCompare {
		return v
	}
	list := make([]float64, mostCompare)
	for i := range list {
		list[i] = v[i*len(v)/mostCompare]
	}
	return list
}

// onePair compares a slow pair with the controls.
func (c *second) onePair(s *SlowPair, f Figure, control map[[2]peers][]float64) {
	for r := range lists.Each(c.ran) {
		x := f.Of(&r.PairResult)
		if r.control || r.starved() || !(x > 0) || s.Direction != r.Direction || len(control[r.class]) < fewest {
			continue
		}
		middle := Median(control[r.class])
		d := lists.Map(control[r.class], func(y float64) float64 { return math.Log(y / middle) })
		yes := f.Worse*math.Log(x/middle) > max(c.Outliers.least(f), c.Outliers.Deviations*mad(d))
		s.Again = Again{x, middle, &yes}
	}
}
