package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plot"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// How much a page lists of a mesh.
const (
	mostVerdicts = 20 // of a kind
	mostWorst    = 10
	mostListed   = 32 // hosts whose pairs are listed one by one
)

// view has the parts of a page that show a mesh.
type view struct {
	Name, Headline, Facts string
	Bad                   bool
	Error                 string
	Verdicts              []finding
	Worst                 []worst
	Repeated              bool // a slow host has more pairs than the one in Worst
	Hosts                 []hostRow
	Distributions, Maps   []template.HTML
	Sparse                bool // few pairs were measured: maps are folded
	Pairs                 []mesh.PairResult
	Count                 int
	Names                 string // of hosts, for the script

	at    map[string]int
	marks []string
	parts []string            // of the headline
	rails int                 // the most NICs of a host
	dark  nicSet              // reach nobody
	mute  nicSet              // could not be tested
	apart []map[[2]string]int // for each split, the side of each NIC
	slow  nicSet
	rail  [2]map[[2]string]float64 // medians of the pairs between two names of NICs
	m     *mesh.Result
}

// finding is one thing that is wrong.
type finding struct{ What, Host, Why string }

// worst is a pair among the worst.
type worst struct {
	From, To string
	Figures  [2]string // with the distance from the median
	Bad      [2]bool
	Slow     bool
	Says     string
}

// hostRow has the medians of a host: sends, receives; each of bandwidth and of latency.
type hostRow struct {
	Name, Says string
	Bad        bool
	Medians    [4]string
	Slow       [4]bool
	Measured   int
	Failed     int
}

// pairFigure is one of the two figures of a pair.
type pairFigure struct {
	mesh.Figure
	unit string
}

var pairFigures = [2]pairFigure{{mesh.Figures[0], "Gb/s"}, {mesh.Figures[1], "µs"}}

func (f *pairFigure) of(p *mesh.PairResult) float64 {
	if x := f.Of(p) / f.Per; plot.Log.Fits(x) {
		return x
	}
	return 0
}

// slowFigures are the figures that the mesh judged to be slow.
type slowFigures map[slowKey][]float64

type slowKey struct {
	mesh.Direction
	figure string
}

// has reports whether a figure of a pair is slow. Two hosts may have several pairs, of their NICs.
func (s slowFigures) has(p *mesh.PairResult, f *pairFigure) bool {
	return slices.ContainsFunc(s[slowKey{p.Direction, f.Key}], func(x float64) bool { return x == 0 || x == f.Of(p) })
}

// says is the figure of a pair in words.
func (f *pairFigure) says(p *mesh.PairResult, pair plot.Pair, median float64) string {
	switch says := cut(printable.Message(p.Error), longestError); {
	case pair.Level == plot.Failed:
		return says
	case pair.Level == plot.Missing && says != "":
		return "not measured: " + says
	case pair.Level == plot.Missing:
		return "not measured"
	}
	return plot.Number(pair.Value) + " " + f.unit + ", " + distance(pair.Value, median) + " from the median" +
		lists.When(pair.Level == plot.Slow, " (slow)")
}

// unmeasured reports whether a pair has an error that says nothing about the pair.
func (v *view) unmeasured(p *mesh.PairResult) bool {
	return p.Error == "interrupted" || p.Error != "" && (v.lost(p.From) || v.lost(p.To) || v.dark.has(p) ||
		v.mute.has(p) || v.parted(p) || mesh.BlamesNobody(p.Error))
}

// lost reports whether a host is gone, or did not come.
func (v *view) lost(host string) bool {
	i, ok := v.at[host]
	return ok && slices.Contains(kinds, v.marks[i])
}

// newView judges nothing: the verdicts are the mesh's own. Pairs that were not measured are no fault.
func newView(r Named, c *charts) *view {
	m, dismissed := settled(r.Mesh)
	v := &view{Name: r.Label(), Error: r.Error, at: map[string]int{}, marks: make([]string, len(m.Hosts)), m: m,
		Count: len(m.Pairs)}
	names := make([]string, len(m.Hosts))
	for i, h := range m.Hosts {
		v.at[h], names[i] = i, name(h)
	}
	for _, s := range m.SlowHosts {
		if i, ok := v.at[s.Host]; ok {
			v.marks[i] = "slow"
		}
	}
	v.cards()
	for _, s := range m.LostHosts {
		if i, ok := v.at[s.Host]; ok {
			v.marks[i] = kindOf(s)
		}
	}
	slow := slowFigures{}
	for _, p := range m.SlowPairs {
		k := slowKey{p.Direction, p.Figure}
		slow[k] = append(slow[k], p.Value)
	}
	var medians [2]float64
	var facts []string
	measured := 0
	for i := range pairFigures {
		f := &pairFigures[i]
		var good, bad []float64
		for p := range lists.Each(m.Pairs) {
			x := f.of(p)
			switch {
			case x <= 0:
			case slow.has(p, f):
				bad = append(bad, x)
			default:
				good = append(good, x)
			}
		}
		n := len(good) + len(bad)
		measured = max(measured, n)
		if n > 0 {
			medians[i] = mesh.Median(slices.Concat(good, bad))
			v.rail[i] = f.byRail(m.Pairs)
			facts = append(facts, fmt.Sprintf("%s %s", plot.Number(medians[i]), f.unit))
		}
		v.figure(f, medians[i], v.rail[i], good, bad, slow, names, c)
	}
	v.Sparse = len(names) > mostListed && 4*measured < v.rails*len(names)*(len(names)-1)
	v.verdicts(slow, measured)
	if dismissed != "" {
		v.add("not confirmed", "", dismissed)
	}
	v.Facts = fmt.Sprintf("%s hosts, %s of %s pairs measured", grouped(len(names)), grouped(measured),
		grouped(len(names)*(len(names)-1)))
	if v.rails > 1 {
		v.Facts = fmt.Sprintf("%s hosts with up to %d NICs, %s pairs of NICs measured", grouped(len(names)), v.rails,
			grouped(measured))
	}
	if facts != nil {
		v.Facts += ". The median is " + strings.Join(facts, ", ")
	}
	if n := [3]int{len(m.Good), len(m.Bad), len(m.Unknown)}; n != [3]int{} {
		v.Facts += fmt.Sprintf(". %s good, %s bad, %s unknown", plural(n[0], "host is", "hosts are"), grouped(n[1]),
			grouped(n[2]))
	}
	v.worst(slow)
	v.hosts(medians)
	if len(names) <= mostListed && len(m.Pairs) <= mostListed*mostListed {
		v.Pairs = m.Pairs
	}
	b, err := json.Marshal(names)
	if err != nil {
		panic(err) // strings can be marshalled
	}
	v.Names = string(b)
	return v
}

// byRail returns the median of each rail, because those of storage NICs are no slow ones of others. The few pairs of
// rare names belong to all.
func (f *pairFigure) byRail(pairs []mesh.PairResult) map[[2]string]float64 {
	var all []float64
	values := map[[2]string][]float64{}
	for p := range lists.Each(pairs) {
		if x := f.of(p); x > 0 {
			r := p.Rail()
			all, values[r] = append(all, x), append(values[r], x)
		}
	}
	medians := map[[2]string]float64{}
	for r, v := range values {
		if len(v) < fewPairs {
			v = all
		}
		medians[r] = mesh.Median(v)
	}
	return medians
}

const fewPairs = 6 // of a rail: those between three hosts

// figure draws how the figures of all pairs are distributed, and the map of them.
func (v *view) figure(f *pairFigure, median float64, rail map[[2]string]float64, good, bad []float64,
	slow slowFigures, names []string, c *charts) {
	n := len(good) + len(bad)
	if n == 0 && f.Key == latencyKey {
		return
	}
	if n > 0 {
		all := slices.Concat(good, bad)
		d := plot.Distribution{Title: f.Title + " of all pairs", X: fmt.Sprintf("%s [%s]", strings.ToLower(f.Title),
			f.unit),
			Values: good, Bad: bad, Lines: []plot.Line{{Value: median, Name: "median " + plot.Number(median)}},
			Desc: fmt.Sprintf("Of %s, from %s to %s, the median is %s. %d are slow.", plural(n, "pair", "pairs"),
				plot.Number(slices.Min(all)), plot.Number(slices.Max(all)), plot.Number(median), len(bad))}
		html, err := d.HTML(c.id())
		c.count(err)
		v.Distributions = append(v.Distributions, html)
	}
	small := len(names) <= plot.MostWithText
	x := plot.Matrix{Title: f.Title + " of each pair [" + f.unit + "]", Unit: f.unit, Names: names, Marks: v.marks,
		Desc: fmt.Sprintf("A row for each sender, a column for each receiver, %d hosts. Colours show by which factor "+
			"a pair is better or worse than the median of its rail. The worst pairs and all hosts are in tables.",
			len(names))}
	for p := range lists.Each(v.m.Pairs) {
		from, ok1 := v.at[p.From]
		to, ok2 := v.at[p.To]
		if !ok1 || !ok2 {
			continue // the table has it
		}
		pair := plot.Pair{From: from, To: to, Value: f.of(p)}
		switch {
		case v.unmeasured(p):
		case p.Error != "":
			pair.Level = plot.Failed
		case pair.Value <= 0:
		case slow.has(p, f):
			pair.Level = plot.Slow
		default:
			pair.Level = plot.LevelOf(f.Factor(pair.Value, rail[p.Rail()]))
		}
		if small {
			pair.Title = fmt.Sprintf("%s to %s: %s", names[from], names[to],
				f.says(p, pair, cmp.Or(rail[p.Rail()], median)))
		}
		x.Pairs = append(x.Pairs, pair)
	}
	html, err := x.HTML(c.id())
	c.count(err)
	v.Maps = append(v.Maps, html)
}
