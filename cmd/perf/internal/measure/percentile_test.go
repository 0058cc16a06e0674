package measure

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// The samples are 1000, 2000, … n*1000 ns in any order, so that the nearest rank of a percentile, which is the smallest
// whole number not below its share of n, is the figure in microseconds.
func TestPercentiles(t *testing.T) {
	for _, tc := range []struct {
		n                         int
		p50, p90, p99, p999, most Percentile // ranks
	}{
		{0, TooFew, TooFew, TooFew, TooFew, TooFew},
		{1, TooFew, TooFew, TooFew, TooFew, TooFew},
		{2, 1, TooFew, TooFew, TooFew, TooFew},
		{3, 2, TooFew, TooFew, TooFew, TooFew},
		{10, 5, 9, TooFew, TooFew, TooFew},
		{99, 50, 90, TooFew, TooFew, TooFew},
		{100, 50, 90, 99, TooFew, TooFew},
		{101, 51, 91, 100, TooFew, TooFew},
		{776, 388, 699, 769, TooFew, TooFew}, // 768.24 of them
		{999, 500, 900, 990, TooFew, TooFew},
		{1000, 500, 900, 990, 999, TooFew},
		{1001, 501, 901, 991, 1000, TooFew},
		{9999, 5000, 9000, 9900, 9990, TooFew},
		{10000, 5000, 9000, 9900, 9990, 9999},
		{10049, 5025, 9045, 9949, 10039, 10048},
	} {
		for name, l := range map[string]*Latency{"kept": NewExact(tc.n), "histogram": NewLatency(),
			"merged": NewLatency()} {
			parts := []*Latency{l}
			if name == "merged" {
				parts = []*Latency{NewExact(tc.n), NewExact(tc.n), NewExact(0)}
			}
			for i, v := range rand.New(rand.NewPCG(1, uint64(tc.n))).Perm(tc.n) {
				parts[i%min(2, len(parts))].Record(float64(v+1) * 1000)
			}
			if name == "merged" {
				for _, p := range parts {
					l.Merge(p)
				}
			}
			s := l.Summary()
			for i, p := range []struct{ got, want Percentile }{{s.P50, tc.p50}, {s.P90, tc.p90}, {s.P99, tc.p99},
				{s.P999, tc.p999}, {s.P9999, tc.most}} {
				most := p.want
				if p.want.Known() {
					p.want, most = 1000*p.want, 1000*p.want
				}
				if name == "histogram" && p.want.Known() {
					most += most / 1000
				}
				if p.got < p.want || p.got > most {
					t.Errorf("%d samples, %s: percentile %d is %v, want %v to %v", tc.n, name, i+1, p.got, p.want, most)
				}
			}
		}
	}
}

// Samples beyond the histogram have their rank too.
func TestPercentilesBeyond(t *testing.T) {
	l := NewLatency()
	for _, ns := range []float64{-5, -3, 100, 2 * float64(highestPs), 3 * float64(highestPs)} {
		l.Record(ns)
		l.Record(ns)
	}
	const most = 3 * Percentile(highestPs)
	if s := l.Summary(); s.P50 < 100 || s.P50 > 100.1 || s.P90 != most || s.OutOfRange != 8 {
		t.Errorf("%+v", s)
	}
}

// One that is not known is null, and comes back as what it was.
func TestPercentileJSON(t *testing.T) {
	l := NewLatency()
	for i := range 100 {
		l.Record(float64(i))
	}
	s := l.Summary()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back Summary
	if err := json.Unmarshal(b, &back); err != nil || back != s || !back.P99.Known() || back.P999.Known() {
		t.Errorf("%s is %+v, %v", b, back, err)
	}
}

// All samples that were kept come back in order; with one too many there are none.
func TestSamplesKept(t *testing.T) {
	l := NewExact(3)
	for _, v := range []float64{3, 1, 2} {
		l.Record(v)
	}
	if s := l.Samples(); len(s) != 3 || s[0] != 3 || s[2] != 2 {
		t.Errorf("samples %v", s)
	}
	if l.Record(4); l.Samples() != nil {
		t.Errorf("samples %v of 4", l.Samples())
	}
}
