package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"

	"github.com/pureverbs/pureverbs/internal/printable"
)

// Tolerance is by how much a figure may be worse.
type Tolerance struct {
	Usual float64 // of bandwidth and median latency; 0.03: by 3 %
	Tail  float64 // of the 99th percentile
	Alone bool    // it decides where there are too few runs for a test
}

// falseAlarm is the chance that any figure of two series of the same thing is said to differ, if the runs are
// independent. Runs one after the other are not quite.
const falseAlarm = 0.005

// Comparison is the outcome of Compare.
type Comparison struct {
	Schema    string     `json:"schema"`
	Version   int        `json:"version"`
	Tolerance float64    `json:"tolerance"`
	Tail      float64    `json:"tolerance_of_p99"`
	Level     float64    `json:"level"`        // a difference has no larger p
	Needs     int        `json:"needs_values"` // on each side, so that there can be a difference
	Figures   []Compared `json:"figures"`
	Worse     int        `json:"worse"`
	TooFew    int        `json:"too_few_runs"`
}

// Compared is a figure in the old and in the new runs.
type Compared struct {
	Bytes   uint64  `json:"bytes,omitempty"`
	Over    string  `json:"over,omitempty"`  // what perf stream or perf message was compared with
	Hosts   string  `json:"hosts,omitempty"` // which pairs of a mesh
	Figure  string  `json:"figure"`
	Old     Middle  `json:"old"`
	New     Middle  `json:"new"`
	Change  float64 `json:"change"` // of the median; 0.05: 5 % more
	P       float64 `json:"p"`      // of the rank test
	Verdict verdict `json:"verdict"`
	Parts   bool    `json:"of_intervals,omitempty"` // the values are those of the intervals of one run a side
}

// Middle is the median of a figure. With a probability of 95 % it is from Low to High, if there are enough values.
type Middle struct {
	Median float64  `json:"median"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	Values int      `json:"values"`
}

type verdict string

const (
	same    verdict = "same"    // there is no difference that noise does not explain
	differs verdict = "differs" // it is better, or worse within the tolerance
	worse   verdict = "worse"   // by more than the tolerance, or it is not known any more
	tooFew  verdict = "too few runs"
)

// Compare compares two series of runs. A figure is worse if a rank test finds a difference and the medians differ by
// more than the tolerance. Runs of different tests are not compared.
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
	c := &Comparison{Schema: Schema + ".compare", Version: 1, Tolerance: tol.Usual, Tail: tol.Tail,
		Level: falseAlarm / float64(len(keys)), Needs: 1}
	for leastP(c.Needs, c.Needs) > c.Level {
		c.Needs++
	}
	for _, k := range keys {
		f := Compared{Bytes: k.bytes, Over: k.over, Hosts: k.hosts, Figure: k.figure}
		f.judge(was.of[k], is.of[k], c.Level, tol)
		switch f.Verdict {
		case worse:
			c.Worse++
		case tooFew:
			c.TooFew++
		}
		c.Figures = append(c.Figures, f)
	}
	return c, nil
}

// leastP returns the p of a rank test of so many values if all old ones are on one side of all new ones: two of all
// arrangements, which are equally likely, are as extreme.
func leastP(old, cur int) float64 {
	p := 2.0
	for i := 1; i <= cur; i++ {
		p *= float64(i) / float64(old+i)
	}
	return min(p, 1)
}

// judge compares the values of a figure.
func (f *Compared) judge(was, is *values, level float64, tol Tolerance) {
	old, cur := was.runs, is.runs
	if len(old) == 1 && len(cur) == 1 && leastP(len(was.parts), len(is.parts)) <= level {
		old, cur, f.Parts = was.parts, is.parts, true
	}
	t := &benchmath.Thresholds{CompareAlpha: level}
	a, b := benchmath.NewSample(slices.Clone(old), t), benchmath.NewSample(slices.Clone(cur), t)
	f.Old, f.P = middle(a), 1
	if len(cur) == 0 {
		f.Change, f.Verdict = -1, worse
		return
	}
	f.New, f.P = middle(b), benchmath.AssumeNothing.Compare(a, b).P
	f.Change = f.New.Median/f.Old.Median - 1
	loss, most := f.Change, tol.Usual
	if f.Figure == bandwidthKey {
		loss = -loss
	}
	if f.Figure == tailKey {
		most = tol.Tail
	}
	few := leastP(len(old), len(cur)) > level
	switch {
	case few && !tol.Alone:
		f.Verdict = tooFew
	case !few && f.P > level:
		f.Verdict = same
	case loss > most:
		f.Verdict = worse
	default:
		f.Verdict = differs
	}
}

func middle(s *benchmath.Sample) Middle {
	sum := benchmath.AssumeNothing.Summary(s, 0.95)
	m := Middle{Median: sum.Center, Values: len(s.Values)}
	if !math.IsInf(sum.Lo, 0) && !math.IsInf(sum.Hi, 0) {
		m.Low, m.High = &sum.Lo, &sum.Hi
	}
	return m
}

// Print writes a line for each figure.
func (c *Comparison) Print(w io.Writer) error {
	label := 10
	for _, f := range c.Figures {
		label = max(label, len(f.label()))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%*s  %-10s %22s %22s %9s\n", label, "#bytes", "figure", "old", "new", "change")
	for _, f := range c.Figures {
		name, unit := "BW [Gb/s]", 1e9
		switch f.Figure {
		case latencyKey:
			name, unit = "p50 [usec]", 1e3
		case tailKey:
			name, unit = "p99 [usec]", 1e3
		}
		change := fmt.Sprintf("%+.1f%%", 100*f.Change)
		if f.Verdict == same || f.Verdict == tooFew {
			change = "~"
		}
		line := fmt.Sprintf("%*s  %-10s %s %s %9s  (p=%.3f n=%d+%d)", label, f.label(), name, f.Old.text(unit),
			f.New.text(unit), change, f.P, f.Old.Values, f.New.Values)
		if f.Parts {
			line += " of intervals"
		}
		if f.Verdict == worse || f.Verdict == tooFew {
			line += "  " + string(f.Verdict)
		}
		fmt.Fprintln(&b, line)
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
	if m.Values == 0 {
		return fmt.Sprintf("%15s %6s", "-", "")
	}
	around := ""
	if m.Low != nil {
		around = fmt.Sprintf("± %.0f%%", 100*max(*m.High/m.Median-1, 1-*m.Low/m.Median))
	}
	return fmt.Sprintf("%15.6g %6s", m.Median/unit, around)
}

// JSON writes one object.
func (c *Comparison) JSON(w io.Writer) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(printable.JSON(append(b, '\n')))
	return err
}

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
	return fmt.Sprintf("%d and %d", s.Mesh.Test.Bandwidth, s.Mesh.Test.Latency)
}
