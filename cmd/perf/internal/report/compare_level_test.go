package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// usual is the tolerance of rdmaperf compare.
var usual = Tolerance{Usual: 0.03, Tail: 0.1}

// process makes the file of a process of a bandwidth test: a line for each size, its rounds.
func process(sizes ...[]float64) *Saved {
	s := &Saved{}
	s.Schema, s.Version, s.Test.Verb, s.Test.Metric = Schema, SchemaVersion, "write", "bw"
	for i, rounds := range sizes {
		for _, v := range rounds {
			r := savedSize{}
			r.Bytes, r.Bits = 2<<i, new(float64)
			*r.Bits = 1e11 * v
			s.Results = append(s.Results, r)
		}
	}
	return s
}

// side makes n processes.
func side(n int, f func() *Saved) (all []*Saved) {
	for range n {
		all = append(all, f())
	}
	return all
}

// spread is a process that is off by a standard deviation, and so are its rounds. It is slower by a loss.
func spread(rng *rand.Rand, between, loss float64, rounds int) func() *Saved {
	return func() *Saved {
		at := (1 - loss) * (1 + between*rng.NormFloat64())
		var list []float64
		for range rounds {
			list = append(list, at*(1+between/4*rng.NormFloat64()))
		}
		return process(list)
	}
}

// stalls is a process of one round that has half the rate with a probability.
func stalls(rng *rand.Rand, share float64) func() *Saved {
	return func() *Saved {
		v := 1 + 0.01*rng.NormFloat64()
		if rng.Float64() < share {
			v /= 2
		}
		return process([]float64{v})
	}
}

func compared(t *testing.T, old, cur []*Saved) *Comparison {
	t.Helper()
	c, err := Compare(old, cur, usual)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pairs is how many comparisons a row takes: those of a full run, or a part of them.
func pairs(full, part int) int {
	if testutil.Full() {
		return full
	}
	return part
}

// TestCompareAlarms: of 1,000 pairs of the same thing at most 0.5 % are said to be worse, whatever their distribution
// is. A short run has 100 pairs.
func TestCompareAlarms(t *testing.T) {
	sizes := func(rng *rand.Rand, n int, own float64) func() *Saved {
		return func() *Saved {
			at := 1 + 0.04*rng.NormFloat64()
			var list [][]float64
			for range n {
				list = append(list, []float64{at * (1 + own*rng.NormFloat64())})
			}
			return process(list...)
		}
	}
	for _, tc := range []struct {
		name string
		n    int
		run  func(*rand.Rand) func() *Saved
	}{
		{"spread 1 %", 8, func(r *rand.Rand) func() *Saved { return spread(r, 0.01, 0, 8) }},
		{"spread 2 %", 8, func(r *rand.Rand) func() *Saved { return spread(r, 0.02, 0, 8) }},
		{"spread 4 %", 8, func(r *rand.Rand) func() *Saved { return spread(r, 0.04, 0, 8) }},
		{"spread 4 %, 6 runs", 6, func(r *rand.Rand) func() *Saved { return spread(r, 0.04, 0, 1) }},
		{"spread 4 %, 20 runs", 20, func(r *rand.Rand) func() *Saved { return spread(r, 0.04, 0, 1) }},
		{"spread 10 %", 8, func(r *rand.Rand) func() *Saved { return spread(r, 0.1, 0, 1) }},
		{"23 sizes that are off together", 8, func(r *rand.Rand) func() *Saved { return sizes(r, 23, 0.01) }},
		{"4 sizes that are off alone", 8, func(r *rand.Rand) func() *Saved { return sizes(r, 4, 0.04) }},
		{"Cauchy", 12, func(r *rand.Rand) func() *Saved {
			return func() *Saved {
				return process([]float64{math.Exp(0.01 * r.NormFloat64() / math.Abs(r.NormFloat64()))})
			}
		}},
		{"10 % slow runs on both sides", 40, func(r *rand.Rand) func() *Saved { return stalls(r, 0.1) }},
		{"30 % slow runs on both sides", 20, func(r *rand.Rand) func() *Saved { return stalls(r, 0.3) }},
		{"a slow run in a hundred, on both sides", 120, func(r *rand.Rand) func() *Saved { return stalls(r, 0.01) }},
	} {
		rng := rand.New(rand.NewPCG(1, uint64(tc.n)))
		run := tc.run(rng)
		alarms, n := 0, pairs(1000, 100)
		for range n {
			if compared(t, side(tc.n, run), side(tc.n, run)).Worse > 0 {
				alarms++
			}
		}
		t.Logf("%s, %d runs a side: %d alarms in %d pairs", tc.name, tc.n, alarms, n)
		if alarms > 2+3*n/1000 {
			t.Errorf("%s, %d runs a side: %d alarms in %d pairs", tc.name, tc.n, alarms, n)
		}
	}
}

// TestCompareFinds: the page's table of how often a loss of 5 % is found is true.
func TestCompareFinds(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/rdmaperf/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| runs a side | spread 1 % | 2 % | 4 % |\n|---|---|---|---|\n")
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$`).FindAllStringSubmatch(table, -1)
	if !ok || len(rows) < 5 {
		t.Fatalf("the page has no table, or it has %d rows", len(rows))
	}
	for _, row := range rows {
		n, _ := strconv.Atoi(row[1])
		for i, between := range []float64{0.01, 0.02, 0.04} {
			rng := rand.New(rand.NewPCG(2, uint64(4*n+i)))
			found, few, all := 0, 0, pairs(1000, 40)
			for range all {
				c := compared(t, side(n, spread(rng, between, 0, 1)), side(n, spread(rng, between, 0.05, 1)))
				found += c.Worse
				few += c.TooFew
			}
			got := fmt.Sprintf("%.0f %%", 100*float64(found)/float64(all))
			if few > 0 {
				got = "too few"
			}
			t.Logf("%d runs a side, spread %.0f %%: %s of %d", n, 100*between, got, all)
			says, err := strconv.ParseFloat(strings.TrimSuffix(row[2+i], " %"), 64)
			share := says / 100
			least := math.Max(share*(1-share), 0.01)
			if differ := math.Abs(float64(found)/float64(all) - share); err == nil &&
				differ > 0.01+4*math.Sqrt(least/float64(all)) || err != nil && got != row[2+i] {
				t.Errorf("%d runs a side, spread %.0f %%: %s of %d, the page says %s", n, 100*between, got, all,
					row[2+i])
			}
		}
	}
}

// TestCompareSlow: that a tenth of the runs became slow is found in nine comparisons of ten with as many runs as the
// comparison says that it needs, and also that they are fast again. With fewer it is found less often.
func TestCompareSlow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	count := func(n int, old, cur float64) (worse, better, all int) {
		all = pairs(1000, 30)
		for range all {
			c := compared(t, side(n, stalls(rng, old)), side(n, stalls(rng, cur)))
			f := c.Figures[0]
			worse += c.Worse
			if f.Verdict == differs && f.PSlow != nil && *f.PSlow <= c.LevelSlow {
				better++
			}
			if f.Old.Slow+f.New.Slow == 0 || f.New.Rounds != n {
				t.Fatalf("%+v", f)
			}
		}
		return worse, better, all
	}
	few := compared(t, side(8, stalls(rng, 0)), side(8, stalls(rng, 0)))
	if few.NeedsSlow > 120 || few.NeedsSlow < 100 {
		t.Errorf("it takes %d runs a side", few.NeedsSlow)
	}
	var b strings.Builder
	want := fmt.Sprintf("# slow runs: it takes %d runs a side", few.NeedsSlow)
	if err := few.Print(&b); err != nil || !strings.Contains(b.String(), want) {
		t.Errorf("%v, %s", err, b.String())
	}
	for _, n := range []int{120, few.NeedsSlow} {
		worse, _, all := count(n, 0, 0.1)
		t.Logf("%d runs a side: found in %d of %d", n, worse, all)
		least := 0.9 * float64(all)
		if !testutil.Full() || n < 120 {
			least -= 4 * math.Sqrt(0.09*float64(all)) // of a sample
		}
		if float64(worse) < least {
			t.Errorf("%d runs a side: found in %d of %d", n, worse, all)
		}
	}
	if _, better, all := count(120, 0.1, 0); better < all*8/10 {
		t.Errorf("better: found in %d of %d", better, all)
	}
	if worse, _, all := count(60, 0, 0.1); worse > all*6/10 {
		t.Errorf("60 runs a side: found in %d of %d", worse, all)
	}
}

// TestCompareRounds: rounds of one process are one run. Their median counts.
func TestCompareRounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 20 {
		c := compared(t, side(1, spread(rng, 0.04, 0, 8)), side(1, spread(rng, 0.04, 0.2, 8)))
		if c.Worse > 0 || c.TooFew != 1 || c.Needs != 6 || c.Figures[0].Old.Runs != 1 || c.Figures[0].Old.Rounds != 8 {
			t.Fatalf("%+v", c)
		}
	}
	old, cur := side(6, func() *Saved { return process([]float64{1, 5, 1.01}) }),
		side(6, func() *Saved { return process([]float64{0.9, 5, 0.89}) })
	c := compared(t, old, cur)
	if f := c.Figures[0]; f.Verdict != worse || f.Old.Median != 1.01e11 || f.New.Median != 0.9e11 || f.P > 0.0011 ||
		f.P < 0.001 {
		t.Errorf("%+v", f)
	}
}

// TestNeeds: with so many runs a side there can be a difference among so many figures.
func TestNeeds(t *testing.T) {
	for _, tc := range []struct{ tests, want int }{{1, 6}, {2, 6}, {4, 7}, {23, 8}, {46, 9}} {
		if got := needs(tc.tests, levelAlone); got != tc.want {
			t.Errorf("%d figures need %d runs, want %d", tc.tests, got, tc.want)
		}
	}
	if p := leastChance(3, 9, 1); math.Abs(p-1.0/220) > 1e-12 {
		t.Errorf("3 and 9 runs: %v", p)
	}
	if p := allNew(2, 2, 2); math.Abs(p-1.0/6) > 1e-12 || allNew(2, 2, 3) != 0 {
		t.Errorf("2 bad ones among 2 and 2: %v", p)
	}
}

// TestArrangements: each arrangement comes once, or the present one and random ones, in which each run is as often new.
func TestArrangements(t *testing.T) {
	seen := map[string]bool{}
	for places := range choices(7, 4) {
		seen[fmt.Sprint(places)] = true
	}
	if len(seen) != 35 || !seen["[0 1 2 3]"] || !seen["[3 4 5 6]"] || !seen["[0 2 4 6]"] {
		t.Errorf("%d arrangements: %v", len(seen), seen)
	}
	f := family{old: 15, cur: 25, matters: []int{3, 39, 20, 0}}
	all, together := 0, 0
	times := map[int]int{}
	for places := range f.arrangements(true) {
		if all++; all == 1 && !slices.Equal(places, []int{39, 20}) {
			t.Errorf("the first arrangement is %v", places)
		}
		for _, i := range places {
			times[i]++
		}
		if len(places) == 4 {
			together++
		}
	}
	for _, i := range f.matters {
		if share := float64(times[i]) / float64(all); math.Abs(share-25.0/40) > 0.01 {
			t.Errorf("run %d is new in %.3f of %d arrangements", i, share, all)
		}
	}
	if share, want := float64(together)/float64(all), allNew(15, 25, 4); math.Abs(share-want) > 0.01 {
		t.Errorf("four runs are all new in %.3f of the arrangements, want %.3f", share, want)
	}
}

// TestMedian: the interval is that of the binomial distribution.
func TestMedian(t *testing.T) {
	for n, want := range map[int]string{1: "1 -", 2: "1.5 -", 5: "3 -", 6: "3.5 1 6", 8: "4.5 1 8", 9: "5 2 8",
		12: "6.5 3 10", 20: "10.5 6 15"} {
		var v []float64
		for i := range n {
			v = append(v, float64(n-i))
		}
		m, low, high := median(v)
		got := fmt.Sprint(m, " -")
		if low != nil {
			got = fmt.Sprint(m, *low, *high)
		}
		if got != want {
			t.Errorf("%d values: %s, want %s", n, got, want)
		}
	}
}

// TestNormalScores: equal values have one score, an unknown one has 0, and outliers count no more than their place.
func TestNormalScores(t *testing.T) {
	got := normalScores([]float64{1, 1e9, math.NaN(), 2, 2})
	if got[2] != 0 || got[3] != got[4] || got[3] != 0 || math.Abs(got[0]+got[1]) > 1e-12 ||
		got[1] < 0.8 || got[1] > 0.9 {
		t.Errorf("%v", got)
	}
}
