package report

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Compare prints the figures of two runs next to each other, and returns how many are worse than tolerance allows
// (0.03: by 3 %). Runs of different tests are not compared.
func Compare(w io.Writer, old, cur *Saved, tolerance float64) (worse int, err error) {
	if what, a, b := difference(&old.Test, &cur.Test); what != "" {
		return 0, fmt.Errorf("the runs are different tests: %s was %v, and is %v", what, a, b)
	}
	fmt.Fprintf(w, "%10s  %-14s %14s %14s %9s\n", "#bytes", "figure", "old", "new", "change")
	common := 0
	for i := range cur.Results {
		c := &cur.Results[i]
		k := slices.IndexFunc(old.Results, func(o savedSize) bool { return o.Bytes == c.Bytes })
		if k < 0 {
			continue
		}
		o := &old.Results[k]
		for _, f := range []struct {
			name     string
			old, cur float64
			unit     float64
			sign     float64 // 1: more is better
		}{
			{"BW [Gb/s]", known(o.Bits), known(c.Bits), 1e9, 1},
			{"rate [Mpps]", known(o.Rate), known(c.Rate), 1e6, 1},
			{"p50 [usec]", float64(o.P50), float64(c.P50), 1e3, -1},
			{"p99 [usec]", float64(o.P99), float64(c.P99), 1e3, -1},
		} {
			if f.old <= 0 {
				continue
			}
			common++
			change := f.cur/f.old - 1
			verdict := ""
			if f.sign*change < -tolerance || f.cur <= 0 {
				worse++
				verdict = "  worse"
			}
			fmt.Fprintf(w, "%10d  %-14s %14.6g %14.6g %+8.1f%%%s\n", c.Bytes, f.name, f.old/f.unit, f.cur/f.unit,
				100*change, verdict)
		}
	}
	if common == 0 {
		return 0, errors.New("the runs have no size in common")
	}
	return worse, nil
}

// difference names what makes two runs different tests, "" if nothing does.
func difference(a, b *testDoc) (what string, old, cur any) {
	for _, f := range []struct {
		name     string
		old, cur any
	}{
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
	} {
		if f.old != f.cur {
			return f.name, f.old, f.cur
		}
	}
	return "", nil, nil
}
