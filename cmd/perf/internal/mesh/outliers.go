package mesh

import (
	"math"
	"slices"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
)

// Outliers defines when a figure is slow: worse than the middle of its equals by more than Share, and by more than
// Deviations times their median absolute deviation (scaled to a standard deviation, of logarithms, because bandwidth
// cannot fall below nothing). What else a NIC has to be is in judge.go.
type Outliers struct {
	Deviations float64
	Share      float64
}

// least is how far the logarithm of a slow figure is from the middle, at least.
func (o Outliers) least(f Figure) float64 { return f.distance(o.Share) }

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
	return 1.4826 * Median(lists.Map(v, func(x float64) float64 { return math.Abs(x - m) }))
}

// pool has values of pairs of NICs that are as good as the others: their logarithms, where 0 is the middle and more is
// better, in ascending order.
type pool []float64

// alarm is the chance that one test of a NIC may have to name it though it is as good as the others.
const alarm = 4e-6

// Values that a pool lacks may still occur: up to rare of all, and as many as mostRare would be no surprise.
const (
	rare     = 0.015
	mostRare = 3
)

// bar is a value below which one of the values of a NIC has to be: nth counts them from the best.
type bar struct {
	nth   int
	below float64
}

// bars returns the tests of a NIC with n values: one that passes below a bar is so low that those of a good NIC are
// with the chance of alarm at most. They count how many values of the NIC are low, and the pool has how often values
// are: whatever their distribution is, with outliers or with two maxima. The best value is the one that shows most if
// some paths are slow, the median if all scatter.
func (p pool) bars(n int, limits shares) (list []bar) {
	size := float64(len(p))
	for _, nth := range slices.Compact([]int{1, (n + 3) / 4, (n + 1) / 2}) {
		if nth == 0 {
			continue
		}
		// As many values of the pool may be lower, and their number has a standard deviation of its root.
		most := limits.of(n, nth)*size - min(rare*size, mostRare)
		if most < 0 || size == 0 {
			continue
		}
		root := (math.Sqrt(1+4*most) - 1) / 2
		list = append(list, bar{nth, p[int(root*root)]})
	}
	return list
}

// low reports whether values of a NIC, the best first, are below a bar.
func low(values []float64, bars []bar) bool {
	return slices.ContainsFunc(bars, func(b bar) bool { return values[b.nth-1] < b.below })
}

// shares remembers the results of limit.
type shares map[[2]int]float64

// of returns the largest share p of low values, so that of n values all but the best nth-1 are low with the chance of
// alarm at most.
func (s shares) of(n, nth int) float64 {
	k := [2]int{n, nth}
	if p, ok := s[k]; ok {
		return p
	}
	lo, hi := 0.0, 1.0
	for range 50 {
		if p := (lo + hi) / 2; atLeast(n, n-nth+1, p) <= alarm {
			lo = p
		} else {
			hi = p
		}
	}
	s[k] = lo
	return lo
}

// atLeast returns the chance that of n values k or more are low, if each is with the chance of p.
func atLeast(n, k int, p float64) (sum float64) {
	whole, _ := math.Lgamma(float64(n + 1))
	for i := k; i <= n; i++ {
		a, _ := math.Lgamma(float64(i + 1))
		b, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(whole - a - b + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

// below returns the chance that the ranks of a have a sum as low as they have, or lower, if both lists have the same
// distribution: the exact rank-sum test of Wilcoxon, where equal values count half.
func below(a, b []float64) float64 {
	wins := 0 // of values of a over those of b, twice
	for _, x := range a {
		for _, y := range b {
			if x > y {
				wins += 2
			} else if x == y {
				wins++
			}
		}
	}
	// ways[i][u]: in how many orders i values of a, and so many of b as the loop has taken, have u wins; as shares.
	n, m := len(a), len(b)
	ways := make([][]float64, n+1)
	for i := range ways {
		ways[i] = make([]float64, n*m+1)
		ways[i][0] = 1
	}
	for k := 1; k <= m; k++ {
		for i := 1; i <= n; i++ {
			last := float64(i) / float64(i+k) // the chance that the largest of all is one of a
			for u := i * k; u >= 0; u-- {
				x := (1 - last) * ways[i][u]
				if u >= k {
					x += last * ways[i-1][u-k]
				}
				ways[i][u] = x
			}
		}
	}
	sum := 0.0
	for u := 0; 2*u <= wins; u++ {
		sum += ways[n][u]
	}
	return sum
}

// distance is how far a figure is from one that is better by a share, as a logarithm.
func (f Figure) distance(share float64) float64 {
	if f.Worse > 0 {
		return math.Log1p(share)
	}
	return -math.Log1p(-min(share, 1))
}

// share is the inverse of distance.
func (f Figure) share(distance float64) float64 {
	if f.Worse > 0 {
		return math.Expm1(distance)
	}
	return -math.Expm1(-distance)
}
