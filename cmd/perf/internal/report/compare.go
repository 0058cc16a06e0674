package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/pureverbs/pureverbs/internal/printable"
)

// Saved is a JSON object as read from a file: what Compare needs of it.
type Saved struct {
	Schema  string      `json:"schema"`
	Version int         `json:"version"`
	Started string      `json:"started"`
	Test    testDoc     `json:"test"`
	Results []savedSize `json:"results"`
	Error   string      `json:"error"`
}

type savedSize struct {
	Bytes uint64   `json:"bytes"`
	Bits  *float64 `json:"bandwidth_bits_per_second"`
	Rate  *float64 `json:"messages_per_second"`
	P50   *float64 `json:"latency_p50_ns"`
	P99   *float64 `json:"latency_p99_ns"`
}

// mostSaved bounds a file: the object of a sweep with histograms has less.
const mostSaved = 16 << 20

// Read reads an object that JSON wrote.
func Read(r io.Reader) (*Saved, error) {
	b, err := io.ReadAll(io.LimitReader(r, mostSaved+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > mostSaved:
		return nil, fmt.Errorf("it has more than %d bytes", mostSaved)
	}
	s := &Saved{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("it is no JSON object of perf: %w", err)
	}
	switch {
	case s.Schema != Schema:
		return nil, fmt.Errorf("its schema is %q, not %q: it was not written by perf --json", s.Schema, Schema)
	case s.Version != SchemaVersion:
		return nil, fmt.Errorf("its schema has version %d, this perf reads %d", s.Version, SchemaVersion)
	case s.Error != "":
		return nil, fmt.Errorf("its run failed: %s", printable.Message(s.Error))
	case len(s.Results) == 0:
		return nil, errors.New("it has no results")
	}
	return s, nil
}

// Compare prints the figures of two runs beside each other, and returns how many are worse than
// tolerance allows (0.03: by 3 %). Runs of different tests are not compared.
func Compare(w io.Writer, old, cur *Saved, tolerance float64) (worse int, err error) {
	if what, a, b := difference(&old.Test, &cur.Test); what != "" {
		return 0, fmt.Errorf("the runs are not of the same test: %s was %v, and is %v", what, a, b)
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
			old, cur *float64
			unit     float64
			sign     float64 // 1: more is better
		}{
			{"BW [Gb/s]", o.Bits, c.Bits, 1e9, 1},
			{"rate [Mpps]", o.Rate, c.Rate, 1e6, 1},
			{"p50 [usec]", o.P50, c.P50, 1e3, -1},
			{"p99 [usec]", o.P99, c.P99, 1e3, -1},
		} {
			if f.old == nil || *f.old <= 0 {
				continue
			}
			common++
			got := 0.0
			if f.cur != nil {
				got = *f.cur
			}
			change := got / *f.old - 1
			verdict := ""
			if f.sign*change < -tolerance || got <= 0 {
				worse++
				verdict = "  worse"
			}
			fmt.Fprintf(w, "%10d  %-14s %14.6g %14.6g %+8.1f%%%s\n", c.Bytes, f.name, *f.old/f.unit, got/f.unit,
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
