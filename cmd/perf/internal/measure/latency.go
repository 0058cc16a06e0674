package measure

import (
	"math"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histogram counts picoseconds, so that half of a round trip loses nothing.
const (
	psPerNs     = 1000
	highestPs   = int64(3600 * 1e12) // one hour
	significant = 3
)

// Latency collects samples. It is not safe for concurrent use; Record does not
// allocate.
type Latency struct {
	hist       *hdrhistogram.Histogram
	n          uint64
	mean, m2   float64 // Welford's running mean and sum of squared deviations
	min, max   float64
	below      uint64    // samples below zero
	outOfRange uint64    // with these
	kept       []float64 // all samples in order, as long as there is room; then the percentiles are exact
}

// NewLatency returns an empty distribution.
func NewLatency() *Latency {
	return &Latency{hist: hdrhistogram.New(1, highestPs, significant), min: math.Inf(1), max: math.Inf(-1)}
}

// NewExact returns an empty distribution that keeps up to n samples.
func NewExact(n int) *Latency {
	l := NewLatency()
	l.kept = make([]float64, 0, n)
	return l
}

// Record adds one sample in nanoseconds. A sample beyond the histogram (below
// zero, above an hour) counts for minimum, mean and maximum and is reported by
// Summary as out of range.
func (l *Latency) Record(ns float64) {
	l.n++
	d := ns - l.mean
	l.mean += d / float64(l.n)
	l.m2 += d * (ns - l.mean)
	l.min = min(l.min, ns)
	l.max = max(l.max, ns)
	if len(l.kept) < cap(l.kept) {
		l.kept = append(l.kept, ns)
	}
	if l.hist.RecordValue(int64(math.Round(ns*psPerNs))) != nil {
		l.outOfRange++
		if ns < 0 {
			l.below++
		}
	}
}

// Count returns the number of samples.
func (l *Latency) Count() uint64 { return l.n }

// Samples returns all samples in order, nil if not all were kept.
func (l *Latency) Samples() []float64 {
	if uint64(len(l.kept)) < l.n {
		return nil
	}
	return l.kept
}

// Merge adds the samples of another distribution.
func (l *Latency) Merge(o *Latency) {
	if o.n == 0 {
		return
	}
	if a, b := l.Samples(), o.Samples(); b != nil && (a != nil || l.n == 0) {
		l.kept = append(slices.Clip(a), b...)
	} else {
		l.kept = nil
	}
	n, d := float64(l.n+o.n), o.mean-l.mean
	l.m2 += o.m2 + d*d*float64(l.n)*float64(o.n)/n
	l.mean += d * float64(o.n) / n
	l.n += o.n
	l.min, l.max = min(l.min, o.min), max(l.max, o.max)
	l.outOfRange += o.outOfRange
	l.below += o.below
	l.hist.Merge(o.hist) // both count the same range
}

// Summary is a latency distribution in figures, all in nanoseconds.
type Summary struct {
	Count      uint64     `json:"samples"`
	Min        float64    `json:"latency_min_ns"`
	Mean       float64    `json:"latency_mean_ns"`
	Stdev      float64    `json:"latency_stdev_ns"`
	P50        Percentile `json:"latency_p50_ns"`
	P90        Percentile `json:"latency_p90_ns"`
	P99        Percentile `json:"latency_p99_ns"`
	P999       Percentile `json:"latency_p99_9_ns"`
	P9999      Percentile `json:"latency_p99_99_ns"`
	Max        float64    `json:"latency_max_ns"`
	OutOfRange uint64     `json:"samples_out_of_range,omitempty"`
}

// Summary computes the figures. Minimum, mean, deviation (of the sample) and
// maximum are exact. Percentiles are by nearest rank: exact if all samples were
// kept, otherwise the end of a step of the histogram, at most 0.1 % above. No
// sample is left out. Without samples all figures but the percentiles are zero.
func (l *Latency) Summary() Summary {
	s := Summary{P50: TooFew, P90: TooFew, P99: TooFew, P999: TooFew, P9999: TooFew}
	if l.n == 0 {
		return s
	}
	s.Count, s.Min, s.Mean, s.Max, s.OutOfRange = l.n, l.min, l.mean, l.max, l.outOfRange
	if l.n > 1 {
		s.Stdev = math.Sqrt(l.m2 / float64(l.n-1))
	}
	at := l.ranks()
	for _, p := range []struct {
		share uint64 // of 10000
		to    *Percentile
	}{{5000, &s.P50}, {9000, &s.P90}, {9900, &s.P99}, {9990, &s.P999}, {9999, &s.P9999}} {
		if rank := (l.n*p.share + 9999) / 10000; rank < l.n { // otherwise it would be the maximum of any few samples
			*p.to = Percentile(at(rank))
		}
	}
	return s
}

// ranks returns a function that finds the value with so many samples at or below it. Ranks must rise from call to call.
func (l *Latency) ranks() func(rank uint64) float64 {
	if kept := l.Samples(); kept != nil {
		sorted := slices.Sorted(slices.Values(kept))
		return func(rank uint64) float64 { return sorted[rank-1] }
	}
	steps, sum := l.hist.Distribution(), l.below
	return func(rank uint64) float64 {
		if rank <= l.below {
			return l.min
		}
		for len(steps) > 0 && sum+uint64(steps[0].Count) < rank {
			sum += uint64(steps[0].Count)
			steps = steps[1:]
		}
		if len(steps) == 0 {
			return l.max // beyond the histogram
		}
		// A step's end can be above the largest sample.
		return min(max(float64(steps[0].To)/psPerNs, l.min), l.max)
	}
}

// Bucket is one step of a latency distribution.
type Bucket struct {
	FromNs float64 `json:"from_ns"`
	ToNs   float64 `json:"to_ns"`
	Count  int64   `json:"count"`
}

// Buckets lists the non-empty steps of the histogram, in order.
func (l *Latency) Buckets() []Bucket {
	var out []Bucket
	for _, b := range l.hist.Distribution() {
		if b.Count > 0 {
			out = append(out, Bucket{float64(b.From) / psPerNs, float64(b.To) / psPerNs, b.Count})
		}
	}
	return out
}
