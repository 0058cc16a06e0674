package report

import (
	"cmp"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
)

// mostExact is up to how many arrangements all are counted. If there are more, at most so many are drawn at random,
// always the same. Less would be too coarse for levelSlow: 8 slow runs of 120 and none of 120 have a chance of 0.0034.
const mostExact = 50_000

// leastRandom is how many random arrangements are drawn at least, and sureDeviations how many standard deviations from
// the level a chance is where no more are needed to know on which side it is.
const (
	leastRandom    = 1000
	sureDeviations = 4
)

// family is a set of tests of the same runs. Each gives every run a score, the old runs first: how bad it is. Without a
// change, each arrangement of the runs in old and new ones is equally likely, whatever the distribution of the figures
// and however they depend on each other within a run.
type family struct {
	old, cur int
	tests    []test
	matters  []int // the runs that have a score other than 0 in any test
}

// test has scores. Their sum over random new runs has variance 1, or 0, and a mean.
type test struct {
	scores []float64
	mean   float64
}

// add adds a test.
func (f *family) add(scores []float64) {
	n := float64(f.old + f.cur)
	var mean, squares float64
	for i, s := range scores {
		mean += s / n
		if s != 0 && !slices.Contains(f.matters, i) {
			f.matters = append(f.matters, i)
		}
	}
	for _, s := range scores {
		squares += (s - mean) * (s - mean)
	}
	if scale := math.Sqrt(float64(f.old) * float64(f.cur) * squares / n / (n - 1)); scale > 0 {
		for i := range scores {
			scores[i] /= scale
		}
		mean /= scale
	}
	f.tests = append(f.tests, test{scores, float64(f.cur) * mean})
}

// z is how bad the new runs are.
func (t *test) z(places []int) float64 {
	z := -t.mean
	for _, i := range places {
		z += t.scores[i]
	}
	return z
}

// chance is how likely noise makes the new runs of any test of a family so much worse, and so much better.
type chance struct{ worse, better float64 }

// chances returns those of each test, as the largest sum of any test in each arrangement has it (Westfall and Young's
// maxT). So few alarms are false in all tests together. Of random arrangements it draws as many as it takes to know
// which chances are below the level.
func (f *family) chances(level float64) []chance {
	if len(f.tests) == 0 {
		return nil
	}
	present := make([]int, f.cur)
	for i := range present {
		present[i] = f.old + i
	}
	own, hits := make([]float64, len(f.tests)), make([]chance, len(f.tests))
	for i := range f.tests {
		own[i] = f.tests[i].z(present)
	}
	all, random := 0.0, ways(f.old+f.cur, f.cur) > mostExact
	for places := range f.arrangements(random) {
		high, low := math.Inf(-1), math.Inf(1)
		for i := range f.tests {
			z := f.tests[i].z(places)
			high, low = max(high, z), min(low, z)
		}
		all++
		const rounding = 1e-9
		expected, sure := level*all, all >= leastRandom
		for i, z := range own {
			if high >= z-rounding {
				hits[i].worse++
			}
			if low <= z+rounding {
				hits[i].better++
			}
			near := min(math.Abs(hits[i].worse-expected), math.Abs(hits[i].better-expected))
			sure = sure && near > sureDeviations*math.Sqrt(expected)
		}
		if random && sure {
			break
		}
	}
	for i := range hits {
		hits[i].worse /= all
		hits[i].better /= all
	}
	return hits
}

// arrangements yields the places of the new runs in each arrangement. Or, of random ones and the present one first,
// those that matter.
func (f *family) arrangements(random bool) iter.Seq[[]int] {
	if !random {
		return choices(f.old+f.cur, f.cur)
	}
	return func(yield func([]int) bool) {
		rng := rand.New(rand.NewPCG(uint64(f.old), uint64(f.cur)))
		places := make([]int, 0, len(f.matters))
		for _, i := range f.matters {
			if i >= f.old {
				places = append(places, i)
			}
		}
		for range mostExact {
			if !yield(places) {
				return
			}
			places = places[:0]
			for k, i := range f.matters {
				if rng.IntN(f.old+f.cur-k) < f.cur-len(places) {
					places = append(places, i)
				}
			}
		}
	}
}

// choices yields each choice of k of n.
func choices(n, k int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		places := make([]int, k)
		for i := range places {
			places[i] = i
		}
		for yield(places) {
			i := k - 1
			for i >= 0 && places[i] == n-k+i {
				i--
			}
			if i < 0 {
				return
			}
			for places[i]++; i+1 < k; i++ {
				places[i+1] = places[i] + 1
			}
		}
	}
}

// ways returns the number of ways to choose k of n.
func ways(n, k int) float64 {
	w := 1.0
	for i := 1; i <= k; i++ {
		w *= float64(n-k+i) / float64(i)
	}
	return w
}

// normalScores gives each value that of a normal distribution in its place. NaN, which is not known, has 0. Outliers
// count no more than in a rank test, and where there are none it finds as much as a test of the means.
func normalScores(values []float64) []float64 {
	var order []int
	for i, v := range values {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	scores := make([]float64, len(values))
	for i := 0; i < len(order); {
		to := i + 1
		for to < len(order) && values[order[to]] == values[order[i]] {
			to++
		}
		rank := float64(i+1+to) / 2 // of equal values
		for ; i < to; i++ {
			scores[order[i]] = math.Sqrt2 * math.Erfinv(2*rank/float64(len(order)+1)-1)
		}
	}
	return scores
}

// needs returns how many runs a side are enough for a verdict about one of so many tests: if all new runs are on one
// side of all old ones.
func needs(tests int, level float64) int {
	n := 1
	for leastChance(n, n, tests) > level {
		n++
	}
	return n
}

func leastChance(old, cur, tests int) float64 { return float64(tests) / ways(old+cur, cur) }

// allNew returns the chance that k bad runs are all among the new ones.
func allNew(old, cur, k int) float64 {
	p := 1.0
	for i := range k {
		p *= float64(max(cur-i, 0)) / float64(old+cur-i)
	}
	return p
}

// needsSlow returns how many runs a side find that a share of the new ones is slow, where no old one is, with a
// probability of power.
func needsSlow(share, power, level float64) int {
	for n := 1; ; n++ {
		k := 1
		for k <= n && allNew(n, n, k) > level {
			k++
		}
		if k > n {
			continue
		}
		fewer, p := 0.0, math.Pow(1-share, float64(n)) // of i slow ones
		for i := range k {
			fewer += p
			p *= share / (1 - share) * float64(n-i) / float64(i+1)
		}
		if 1-fewer >= power {
			return n
		}
	}
}

// median returns the median of values, and from low to high an interval that has that of the distribution with a
// probability of 95 %, if there are enough values.
func median(values []float64) (m float64, low, high *float64) {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	m = (v[(n-1)/2] + v[n/2]) / 2
	// k values at each end can be left out: the median is beyond them with a probability of 2.5 %.
	k, below, p := 0, 0.0, math.Pow(0.5, float64(n))
	for i := range n / 2 {
		if below += p; below > 0.025 {
			break
		}
		k = i + 1
		p *= float64(n-i) / float64(i+1)
	}
	if k > 0 {
		low, high = &v[k-1], &v[n-k]
	}
	return m, low, high
}
