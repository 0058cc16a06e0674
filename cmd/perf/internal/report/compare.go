package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/internal/printable"
)

// Tolerance is by how much a figure may be worse.
type Tolerance struct {
	Usual float64 // of bandwidth and median latency; 0.03: by 3 %
	Tail  float64 // of the 99th percentile
	Alone bool    // it decides where there are too few runs for a test
}

// The chance that a comparison of the same thing says that any figure is worse is at most the sum of the levels of its
// tests: of the medians, and of slow runs if there are enough of them on both sides together to be tested.
const (
	levelAlone  = 0.0025 // of the medians, without slow runs
	levelBeside = 0.0008 // of the medians, next to slow runs
	levelSlow   = 0.0042
)

// A slow run is worse than the median of all by more than the tolerance, and by so many standard deviations.
const slowDeviations = 4

// Comparison is the outcome of Compare.
type Comparison struct {
	Schema    string     `json:"schema"`
	Version   int        `json:"version"`
	Tolerance float64    `json:"tolerance"`
	Tail      float64    `json:"tolerance_of_p99"`
	OldRuns   int        `json:"old_runs"` // files, each of a process
	NewRuns   int        `json:"new_runs"`
	Level     float64    `json:"level"`      // a difference has no larger p
	LevelSlow float64    `json:"level_slow"` // a difference of slow runs has no larger p_slow
	Needs     int        `json:"needs_runs"` // on each side, so that there can be a difference
	Alone     bool       `json:"by_tolerance_alone,omitempty"`
	NeedsSlow int        `json:"needs_runs_slow"` // on each side, so that slowShare of slow runs is found
	Figures   []Compared `json:"figures"`
	Worse     int        `json:"worse"` // also those with more slow runs
	TooFew    int        `json:"too_few_runs"`
}

// Compared is a figure in the old and in the new runs.
type Compared struct {
	Bytes   uint64   `json:"bytes,omitempty"`
	Over    string   `json:"over,omitempty"`  // what rdmaperf stream or rdmaperf message was compared with
	Hosts   string   `json:"hosts,omitempty"` // which pairs of a mesh
	Figure  string   `json:"figure"`
	Old     Middle   `json:"old"`
	New     Middle   `json:"new"`
	Change  float64  `json:"change"` // the median of the ratios of new to old runs; 0.05: 5 % more
	P       float64  `json:"p"`      // of so large a difference of any figure in this direction
	PSlow   *float64 `json:"p_slow"` // the same of the number of slow runs; nil: too few are slow
	Verdict verdict  `json:"verdict"`
}

// Middle is the median of runs. With a probability of 95 % it is from Low to High, if there are enough runs.
type Middle struct {
	Median float64  `json:"median"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	Runs   int      `json:"runs"`   // whose figure is known
	Rounds int      `json:"rounds"` // of all runs; of a mesh, pairs
	Slow   int      `json:"slow"`   // of the rounds
}

type verdict string

const (
	same    verdict = "same"    // there is no difference that noise does not explain
	differs verdict = "differs" // it is better, or worse within the tolerance
	worse   verdict = "worse"   // by more than the tolerance, or it is not known any more
	slower  verdict = "more slow runs"
	tooFew  verdict = "too few runs"
	within  verdict = "within the tolerance" // which decides alone
)

// What NeedsSlow is about: this share of the new runs is slow, and so often it is found.
const (
	slowShare = 0.1
	slowPower = 0.9
)

// Compare compares two series of runs, each the file of a process: rounds of one process have its connection and its
// memory, and differ less than processes do. A figure is worse if a permutation test finds a difference, and the runs
// differ by more than the tolerance; or if more runs are slow. Runs of different tests are not compared.
func Compare(old, cur []*Saved, tol Tolerance) (*Comparison, error) {
	for _, s := range slices.Concat(old, cur) {
		if what, a, b := difference(old[0], s); what != "" {
			return nil, fmt.Errorf("the runs are different tests: %s was %v, and is %v", what, a, b)
		}
	}
	was, is := seriesOf(old), seriesOf(cur)
	keys := was.common(is)
	if len(keys) == 0 {
		return nil, errors.New("the runs have no size or pair of hosts in common")
	}
	c := &Comparison{Schema: Schema + ".compare", Version: 2, Tolerance: tol.Usual, Tail: tol.Tail,
		OldRuns: len(old), NewRuns: len(cur), Level: levelAlone, LevelSlow: levelSlow,
		NeedsSlow: needsSlow(slowShare, slowPower, levelSlow)}
	medians, slow := family{old: len(old), cur: len(cur)}, family{old: len(old), cur: len(cur)}
	var tested []int // figures of slow
	for i, k := range keys {
		f := Compared{Bytes: k.bytes, Over: k.over, Hosts: k.hosts, Figure: k.figure}
		middles, shares := f.measure(was.values(k), is.values(k), f.most(tol))
		medians.add(normalScores(middles))
		bad := lists.Count(shares, func(s *float64) bool { return *s != 0 })
		if bad > 0 && allNew(len(old), len(cur), min(bad, len(cur))) <= levelSlow {
			slow.add(shares)
			tested = append(tested, i)
			c.Level = levelBeside
		}
		c.Figures = append(c.Figures, f)
	}
	c.Needs = needs(len(keys), c.Level)
	few := leastChance(len(old), len(cur), len(keys)) > c.Level
	c.Alone = few && tol.Alone
	p, ofSlow := medians.chances(c.Level), slow.chances(levelSlow)
	for i := range c.Figures {
		f := &c.Figures[i]
		var s *chance
		if k, ok := slices.BinarySearch(tested, i); ok {
			s = &ofSlow[k]
		}
		f.judge(p[i], s, c, few, f.most(tol))
		switch f.Verdict {
		case worse, slower:
			c.Worse++
		case tooFew:
			c.TooFew++
		}
	}
	return c, nil
}

// bad returns how bad a value is: a logarithm, so that differences are ratios.
func (f *Compared) bad(v float64) float64 {
	if f.Figure == bandwidthKey {
		return -math.Log(v)
	}
	return math.Log(v)
}

// loss returns by which part of a figure a difference of bad is.
func (f *Compared) loss(d float64) float64 {
	if f.Figure == bandwidthKey {
		return 1 - math.Exp(-d)
	}
	return math.Exp(d) - 1
}

// most is the largest loss that is accepted.
func (f *Compared) most(tol Tolerance) float64 {
	if f.Figure == tailKey {
		return tol.Tail
	}
	return tol.Usual
}

// measure takes the values of each run. It returns how bad the median of each is, the old ones first, NaN if it is not
// known, and which share of its values is slow.
func (f *Compared) measure(was, is [][]float64, most float64) (middles, shares []float64) {
	runs := slices.Concat(was, is)
	all := lists.Map(slices.Concat(runs...), f.bad)
	centre, _, _ := median(all)
	spread, _, _ := median(lists.Map(all, func(b float64) float64 { return math.Abs(b - centre) }))
	spread *= 1.4826 // a standard deviation, if the distribution is normal
	var sides [2][]float64
	for i, run := range runs {
		m, side, k := &f.Old, math.NaN(), 0
		if i >= len(was) {
			m, k = &f.New, 1
		}
		slow := 0
		for _, v := range run {
			if b := f.bad(v) - centre; f.loss(b) > most && b > slowDeviations*spread {
				slow++
			}
		}
		if len(run) > 0 {
			middle, _, _ := median(run)
			sides[k] = append(sides[k], middle)
			side = f.bad(middle)
			m.Runs++
		}
		m.Rounds += len(run)
		m.Slow += slow
		middles, shares = append(middles, side), append(shares, float64(slow)/float64(max(len(run), 1)))
	}
	f.Change = -1
	for i, m := range []*Middle{&f.Old, &f.New} {
		if m.Runs > 0 {
			m.Median, m.Low, m.High = median(sides[i])
		}
	}
	var ratios []float64
	for _, a := range sides[0] {
		for _, b := range sides[1] {
			ratios = append(ratios, b/a)
		}
	}
	if len(ratios) > 0 {
		ratio, _, _ := median(ratios)
		f.Change = ratio - 1
	}
	return middles, shares
}

// judge says what a difference is. few reports that there are too few runs to find one.
func (f *Compared) judge(p chance, slow *chance, c *Comparison, few bool, most float64) {
	f.P = min(p.worse, p.better)
	loss := f.Change
	if f.Figure == bandwidthKey {
		loss = -loss
	}
	found, beyond, better := f.P <= c.Level, loss > most, false
	f.Verdict = same
	if slow != nil {
		least := min(slow.worse, slow.better)
		f.PSlow = &least
		better = slow.better <= c.LevelSlow
	}
	switch {
	case f.New.Runs == 0, found && p.worse <= c.Level && beyond:
		f.Verdict = worse
	case slow != nil && slow.worse <= c.LevelSlow:
		f.Verdict = slower
	case found || better:
		f.Verdict = differs
	case c.Alone && beyond:
		f.Verdict = worse
	case c.Alone:
		f.Verdict = within
	case few:
		f.Verdict = tooFew
	}
}

// columns are the names of figures in a table.
var columns = map[string]string{bandwidthKey: "BW [Gb/s]", latencyKey: "p50 [usec]", tailKey: "p99 [usec]"}

// Print writes a line for each figure.
func (c *Comparison) Print(w io.Writer) error {
	label := 10
	for _, f := range c.Figures {
		label = max(label, len(f.label()))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%*s  %-10s %22s %22s %9s\n", label, "#bytes", "figure", "old", "new", "change")
	for _, f := range c.Figures {
		unit := cmp.Or(lists.When(f.Figure == bandwidthKey, 1e9), 1e3)
		none := f.Verdict == same || f.Verdict == tooFew
		change := cmp.Or(lists.When(none, "~"), fmt.Sprintf("%+.1f%%", 100*f.Change))
		line := fmt.Sprintf("%*s  %-10s %s %s %9s  (p=%.4f n=%d+%d)", label, f.label(), columns[f.Figure],
			f.Old.text(unit), f.New.text(unit), change, f.P, f.Old.Runs, f.New.Runs)
		if f.Old.Slow+f.New.Slow > 0 {
			line += fmt.Sprintf("  slow: %d of %d, %d of %d", f.Old.Slow, f.Old.Rounds, f.New.Slow, f.New.Rounds)
			if f.PSlow != nil {
				line += fmt.Sprintf(" (p=%.4f)", *f.PSlow)
			}
		}
		fmt.Fprintln(&b, line+lists.When(f.Verdict != same && f.Verdict != differs, "  "+string(f.Verdict)))
	}
	if c.Alone {
		fmt.Fprintf(&b, "# the tolerance alone decides: a test takes %d runs a side\n", c.Needs)
	}
	if min(c.OldRuns, c.NewRuns) < c.NeedsSlow {
		fmt.Fprintf(&b, "# slow runs: it takes %d runs a side to find in %.0f of 100 comparisons that %.0f %% of them "+
			"became slow\n", c.NeedsSlow, 100*slowPower, 100*slowShare)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// label says what was measured.
func (f *Compared) label() string {
	if f.Hosts != "" {
		return printable.Name(f.Hosts)
	}
	return strings.TrimSpace(printable.Name(f.Over) + fmt.Sprintf(" %d", f.Bytes))
}

// text is the median and the larger distance to the ends of its interval, in two columns.
func (m Middle) text(unit float64) string {
	if m.Runs == 0 {
		return fmt.Sprintf("%15s %6s", "-", "")
	}
	around := ""
	if m.Low != nil {
		around = fmt.Sprintf("± %.0f%%", 100*max(*m.High/m.Median-1, 1-*m.Low/m.Median))
	}
	return fmt.Sprintf("%15.6g %6s", m.Median/unit, around)
}

// JSON writes one object.
func (c *Comparison) JSON(w io.Writer) error { return printable.WriteJSON(w, c, "  ") }

// difference names what makes two runs different tests, "" if nothing does.
func difference(x, y *Saved) (what string, old, cur any) {
	a, b := &x.Test, &y.Test
	for _, f := range []struct {
		name     string
		old, cur any
	}{
		{"the schema", x.Schema, y.Schema},
		{"the verb", a.Verb, b.Verb},
		{"the metric", a.Metric, b.Metric},
		{"the role", a.Role, b.Role},
		{"the connection type", a.Connection, b.Connection},
		{"both directions", a.Bidirectional, b.Bidirectional},
		{"the number of queue pairs", a.QPs, b.QPs},
		{"the send depth", a.TxDepth, b.TxDepth},
		{"the post list", a.PostList, b.PostList},
		{"sleeping for events", a.Events, b.Events},
		{"the latency definition", a.LatencyDef, b.LatencyDef},
		{"the schema's version, with both directions", x.directions(), y.directions()},
		{"the mesh's message size", x.meshBytes(), y.meshBytes()},
	} {
		if f.old != f.cur {
			return f.name, f.old, f.cur
		}
	}
	return "", nil, nil
}

// directions returns the version of the schema if it matters for the figures: in an old one those of both directions
// depend on where they stand.
func (s *Saved) directions() int {
	if !s.Test.Bidirectional {
		return 0
	}
	return s.Version
}

// meshBytes returns the sizes that a mesh measured.
func (s *Saved) meshBytes() string {
	if s.Mesh == nil {
		return ""
	}
	return fmt.Sprintf("%d and %d", s.Mesh.Test.BandwidthBytes, s.Mesh.Test.LatencyBytes)
}
