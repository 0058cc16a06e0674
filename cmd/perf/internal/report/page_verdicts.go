package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plot"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// verdicts says what is wrong: hosts first, since a host explains its pairs.
func (v *view) verdicts(slow slowFigures, measured int) {
	without := map[string]int{}
	failed := 0
	var slowPairs []string
	errs := map[string]int{} // and a pair that had each
	first := map[string]string{}
	for p := range lists.Each(v.m.Pairs) {
		switch {
		case p.Error == "" || p.Error == "interrupted":
		case v.unmeasured(p):
			for _, h := range []string{p.From, p.To} {
				if v.lost(h) {
					without[h]++
				}
			}
		default:
			failed++
			text := cut(printable.Message(p.Error), longestError)
			if errs[text]++; errs[text] == 1 {
				first[text] = v.called(p)
			}
		}
		if (slow.has(p, &pairFigures[0]) || slow.has(p, &pairFigures[1])) && !v.explained(p) {
			slowPairs = append(slowPairs, v.called(p))
		}
	}
	v.lostHosts(without)
	v.splits()
	v.darkNICs()
	v.slowHosts()
	v.stalls()
	v.part(len(slowPairs), "more pair slow", "more pairs slow")
	if n := len(slowPairs); n > 0 {
		v.add("slow", "", strings.Join(slowPairs[:min(n, 3)], ", ")+andMore(n-3)+", although the hosts are not slow")
	}
	v.part(failed, "pair failed", "pairs failed")
	some(v, "failed", byCount(errs), mostVerdicts/4, "other errors", func(text string) (host, why string) {
		return "", first[text] + andMore(errs[text]-1) + ": " + text
	})
	v.Bad = v.parts != nil
	v.part(len(v.m.Unknown), "host unknown", "hosts unknown")
	v.unknown()
	switch {
	case v.parts != nil:
		v.Headline = strings.Join(v.parts, ", ")
		v.Headline = strings.Replace(v.Headline, "more pair", "pair", lists.When(len(v.m.SlowHosts) == 0, 1))
	case measured == 0:
		v.Headline = "no pair was measured"
	case v.Error != "":
		v.Headline = "no host and no pair was slow until the mesh ended early"
	default:
		v.Headline = "no host and no pair is slow"
	}
}

func andMore(n int) string { return lists.When(n > 0, " and "+plural(n, "more pair", "more pairs")) }

// kinds of hosts that are gone, or did not come.
var kinds = []string{mesh.Lost, mesh.LeftOut, mesh.Absent}

func kindOf(l mesh.LostHost) string {
	if slices.Contains(kinds, l.Kind) {
		return l.Kind
	}
	return kinds[0]
}

// unnamed is a host that stands for several whose names nobody knows.
const unnamed = "?"

// lostHosts has a verdict for each host that is gone. without is how many of its pairs have no figure.
func (v *view) lostHosts(without map[string]int) {
	for _, kind := range kinds {
		n, more := 0, ""
		for _, s := range v.m.LostHosts {
			if kindOf(s) != kind {
				continue
			}
			why := cut(printable.Message(s.Error), longestError)
			if s.Host == unnamed {
				more = "unnamed hosts " + kind
				v.add(kind, "", why)
				continue
			}
			if n++; n > mostVerdicts {
				continue
			}
			if k := without[s.Host]; k > 0 {
				why = strings.TrimPrefix(fmt.Sprintf("%s. %s of it without a figure", why, plural(k, "pair", "pairs")),
					". ")
			}
			v.add(kind, name(s.Host), why)
		}
		v.part(n, "host "+kind, "hosts "+kind)
		if more != "" {
			v.parts = append(v.parts, more)
		}
		if n > mostVerdicts {
			v.add(kind, "", fmt.Sprintf("%d more hosts", n-mostVerdicts))
		}
	}
}

func (v *view) add(what, host, why string) { v.Verdicts = append(v.Verdicts, finding{what, host, why}) }

// part adds to the headline how many there are of something, if there are any.
func (v *view) part(n int, one, many string) {
	if n > 0 {
		v.parts = append(v.parts, plural(n, one, many))
	}
}

// some has a verdict for each of the first ones of a list, and one for the rest.
func some[T any](v *view, what string, list []T, most int, rest string, verdict func(T) (host, why string)) {
	for i, e := range list {
		if i == most {
			v.add(what, "", fmt.Sprintf("%d %s", len(list)-i, rest))
			return
		}
		host, why := verdict(e)
		v.add(what, host, why)
	}
}

func (v *view) marked(host string) bool {
	i, ok := v.at[host]
	return ok && v.marks[i] != ""
}

// slowHosts has a verdict for each slow host, with all its parts and figures.
func (v *view) slowHosts() {
	hosts := lists.Groups(v.m.SlowHosts, slowName)
	v.part(len(hosts), "host slow", "hosts slow")
	some(v, "slow", hosts, mostVerdicts, "more, in the table of hosts", func(parts []mesh.SlowHost) (_, _ string) {
		return slowName(parts[0]), strings.Join(lists.Map(parts, slowSays), "; ")
	})
}

// slowSays describes a part of a slow host, and its figure.
func slowSays(p mesh.SlowHost) string {
	figure := func(per float64, unit string) string {
		x, m := p.Value/per, p.Median/per
		return lists.When(plot.Log.Fits(x) && plot.Log.Fits(m), " "+plot.Number(x)+" "+unit+" ("+distance(x, m)+")")
	}
	says := p.Part
	for f := range lists.Each(pairFigures[:]) {
		if said := figure(f.Per, f.unit); p.Figure == f.Key && said != "" {
			says += " at" + lists.When(f.Key == latencyKey, " a latency of") + said
		} else if p.Figure == f.Key {
			says += ", " + map[string]string{bandwidthKey: "bandwidth", latencyKey: "latency"}[f.Key]
		}
	}
	return cut(printable.Message(says), longestError)
}

// slowName is the host, and its NIC if the verdict is on that alone.
func slowName(p mesh.SlowHost) string { return end(p.Host, p.NIC) }

// byCount returns the keys, the most frequent first.
func byCount(m map[string]int) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(m[b]-m[a], cmp.Compare(a, b)) })
}

// worst takes the pairs that are worse than the median of their rail by the largest factor. A slow host has only one of
// them, so that it does not hide all others.
func (v *view) worst(slow slowFigures) {
	type candidate struct {
		p    *mesh.PairResult
		rank float64
	}
	var all []candidate
	for p := range lists.Each(v.m.Pairs) {
		rank := 0.0
		for k := range pairFigures {
			if x := pairFigures[k].of(p); x > 0 {
				r := pairFigures[k].Factor(x, v.rail[k][p.Rail()])
				if slow.has(p, &pairFigures[k]) {
					r += 1e6 // what was judged comes before what is only far
				}
				rank = max(rank, r)
			}
		}
		if rank > 1 {
			all = append(all, candidate{p, rank})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.rank, a.rank) })
	seen := map[string]bool{}
	for _, c := range all {
		var hosts []string
		for _, h := range []string{c.p.From, c.p.To} {
			if v.marked(h) {
				hosts = append(hosts, h)
			}
		}
		if slices.ContainsFunc(hosts, func(h string) bool { return seen[h] }) {
			v.Repeated = true
			continue
		}
		if len(v.Worst) == mostWorst {
			break
		}
		w := worst{From: v.side(c.p.From, c.p.FromNIC), To: v.side(c.p.To, c.p.ToNIC)}
		for k := range pairFigures {
			f := &pairFigures[k]
			if x := f.of(c.p); x > 0 {
				w.Figures[k] = fmt.Sprintf("%s (%s)", plot.Number(x), distance(x, v.rail[k][c.p.Rail()]))
				w.Bad[k] = slow.has(c.p, f)
			}
		}
		w.Slow = w.Bad[0] || w.Bad[1]
		w.Says = lists.When(!w.Slow, "not ") + "slow"
		for _, h := range hosts {
			seen[h] = true
			w.Says += ", as host " + name(h)
		}
		v.Worst = append(v.Worst, w)
	}
}

// hosts has a row for each host, bad ones first.
func (v *view) hosts(medians [2]float64) {
	n := len(v.m.Hosts)
	values := make([][4][]float64, n)
	v.Hosts = make([]hostRow, n)
	for p := range lists.Each(v.m.Pairs) {
		for end, host := range []string{p.From, p.To} {
			at, ok := v.at[host]
			if !ok {
				continue
			}
			some := false
			for k := range pairFigures {
				if x := pairFigures[k].of(p); x > 0 {
					some = true
					values[at][2*k+end] = append(values[at][2*k+end], x)
				}
			}
			if some {
				v.Hosts[at].Measured++
			} else if p.Error != "" && !v.unmeasured(p) {
				v.Hosts[at].Failed++
			}
		}
	}
	says := map[string]string{}
	for _, h := range v.m.Good {
		says[h] = "good"
	}
	for _, u := range v.m.Unknown {
		says[u.Host] = unknownHost
	}
	for i, host := range v.m.Hosts {
		h := &v.Hosts[i]
		h.Name, h.Says, h.Bad = name(host), cmp.Or(v.marks[i], says[roster.Node(host)]), v.marks[i] != ""
		for k := range values[i] {
			if m := mesh.Median(values[i][k]); m > 0 {
				h.Medians[k] = fmt.Sprintf("%s (%s)", plot.Number(m), distance(m, medians[k/2]))
			}
		}
	}
	for _, s := range v.m.SlowHosts {
		if i, ok := v.at[s.Host]; ok {
			k := 2 * lists.When(s.Figure == latencyKey, 1)
			v.Hosts[i].Slow[k+lists.When(s.Part == "receives", 1)] = true
		}
	}
	rank := func(h hostRow) int { return 2*lists.When(h.Bad, 1) + lists.When(h.Says == unknownHost, 1) }
	slices.SortStableFunc(v.Hosts, func(a, b hostRow) int { return rank(b) - rank(a) })
}
