package mesh

import (
	"math"
	"slices"
)

// Outliers says when a figure is slow: worse than the median by more than Deviations times the median absolute
// deviation (scaled to a standard deviation), and by more than Share of the median, as the deviation of quiet hosts is
// nearly nothing.
type Outliers struct {
	Deviations float64
	Share      float64
}

// median returns NaN for no values.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// mad is the median absolute deviation, scaled so that it is the standard deviation of a normal distribution.
func mad(v []float64) float64 {
	m := median(v)
	d := make([]float64, len(v))
	for i := range v {
		d[i] = math.Abs(v[i] - m)
	}
	return 1.4826 * median(d)
}

// slow returns a function that reports whether a value is slow among v. sign is 1 where more is worse, or -1.
func (o Outliers) slow(v []float64, sign float64) func(float64) bool {
	m := median(v)
	limit := max(o.Deviations*mad(v), o.Share*m)
	return func(x float64) bool { return len(v) > 2 && sign*(x-m) > limit }
}
