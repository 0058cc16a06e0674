package measure

import (
	"math"

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
	outOfRange uint64
}

// NewLatency returns an empty distribution.
func NewLatency() *Latency {
	return &Latency{hist: hdrhistogram.New(1, highestPs, significant), min: math.Inf(1), max: math.Inf(-1)}
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
	if l.hist.RecordValue(int64(math.Round(ns*psPerNs))) != nil {
		l.outOfRange++
	}
}

// Merge adds the samples of another distribution.
func (l *Latency) Merge(o *Latency) {
	if o.n == 0 {
		return
	}
	n, d := float64(l.n+o.n), o.mean-l.mean
	l.m2 += o.m2 + d*d*float64(l.n)*float64(o.n)/n
	l.mean += d * float64(o.n) / n
	l.n += o.n
	l.min, l.max = min(l.min, o.min), max(l.max, o.max)
	l.outOfRange += o.outOfRange
	l.hist.Merge(o.hist) // both count the same range
}

// Summary is a latency distribution in figures, all in nanoseconds.
type Summary struct {
	Count      uint64  `json:"samples"`
	Min        float64 `json:"latency_min_ns"`
	Mean       float64 `json:"latency_mean_ns"`
	Stdev      float64 `json:"latency_stdev_ns"`
	P50        float64 `json:"latency_p50_ns"`
	P90        float64 `json:"latency_p90_ns"`
	P99        float64 `json:"latency_p99_ns"`
	P999       float64 `json:"latency_p99_9_ns"`
	P9999      float64 `json:"latency_p99_99_ns"`
	Max        float64 `json:"latency_max_ns"`
	OutOfRange uint64  `json:"samples_out_of_range,omitempty"`
}

// Summary computes the figures. Minimum, mean, deviation (of the sample) and
// maximum are exact, percentiles are exact to three digits. No sample is left
// out. Without samples all figures are zero.
func (l *Latency) Summary() Summary {
	if l.n == 0 {
		return Summary{}
	}
	s := Summary{Count: l.n, Min: l.min, Mean: l.mean, Max: l.max, OutOfRange: l.outOfRange}
	if l.n > 1 {
		s.Stdev = math.Sqrt(l.m2 / float64(l.n-1))
	}
	q := func(p float64) float64 {
		// A bucket's upper end can be above the largest sample.
		return min(max(float64(l.hist.ValueAtPercentile(p))/psPerNs, l.min), l.max)
	}
	s.P50, s.P90, s.P99, s.P999, s.P9999 = q(50), q(90), q(99), q(99.9), q(99.99)
	return s
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
