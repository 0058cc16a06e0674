package mesh

import (
	"math"
	"slices"
)

// Outliers defines when a figure is slow: worse than the median by more than Share of it, and its logarithm by more
// than Deviations times the median absolute deviation of the logarithms (scaled to a standard deviation). Logarithms,
// as bandwidth cannot fall below nothing: of figures that scatter, not even a hundredth would be far from the median.
type Outliers struct {
	Deviations float64
	Share      float64
}

// Median returns NaN for no values.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// mad is the median absolute deviation, scaled so that it is the standard deviation of a normal distribution.
func mad(v []float64) float64 {
	m := Median(v)
	d := make([]float64, len(v))
	for i := range v {
		d[i] = math.Abs(v[i] - m)
	}
	return 1.4826 * Median(d)
}

// slow returns a function that reports whether a value is slow among v, which are above 0. sign is 1 where more is
// worse, or -1.
func (o Outliers) slow(v []float64, sign float64) func(float64) bool {
	logs := make([]float64, len(v))
	for i := range v {
		logs[i] = math.Log(v[i])
	}
	m, deviation, middle := Median(logs), mad(logs), Median(v)
	return func(x float64) bool {
		return len(v) > 2 && sign*(math.Log(x)-m) > o.Deviations*deviation && sign*(x-middle) > o.Share*middle
	}
}
