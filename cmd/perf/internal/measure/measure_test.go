package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestLatencySummary(t *testing.T) {
	exact := func(v []float64) Summary {
		s := slices.Clone(v)
		slices.Sort(s)
		q := func(p float64) Percentile {
			if rank := int(math.Ceil(p / 100 * float64(len(s)))); rank < len(s) {
				return Percentile(s[rank-1])
			}
			return TooFew
		}
		sum := 0.0
		for _, x := range s {
			sum += x
		}
		mean := sum / float64(len(s))
		dev := 0.0
		for _, x := range s {
			dev += (x - mean) * (x - mean)
		}
		sd := 0.0
		if len(s) > 1 {
			sd = math.Sqrt(dev / float64(len(s)-1))
		}
		return Summary{Count: uint64(len(s)), Min: s[0], Mean: mean, Stdev: sd,
			P50: q(50), P90: q(90), P99: q(99), P999: q(99.9), P9999: q(99.99), Max: s[len(s)-1]}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var skewed, narrow []float64
	for range 50000 {
		skewed = append(skewed, 1500+math.Exp(rng.Float64()*12))
		narrow = append(narrow, 2000+rng.Float64()) // deviations far below 1 µs
	}
	for _, tc := range []struct {
		name string
		v    []float64
	}{
		{"one", []float64{1234.5}},
		{"two", []float64{1000, 3000}},
		{"halves", []float64{0.5, 1.5, 2.5, 3.5}},
		{"skewed", skewed},
		{"narrow", narrow},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := NewLatency()
			for _, x := range tc.v {
				l.Record(x)
			}
			got, want := l.Summary(), exact(tc.v)
			near := func(what string, got, want, tol float64) {
				t.Helper()
				if math.Abs(got-want) > tol*math.Max(want, 1) {
					t.Errorf("%s = %v, want %v", what, got, want)
				}
			}
			if got.Count != want.Count || got.Min != want.Min || got.Max != want.Max {
				t.Errorf("count, min, max = %d %v %v, want %d %v %v", got.Count, got.Min, got.Max, want.Count,
					want.Min, want.Max)
			}
			near("mean", got.Mean, want.Mean, 1e-9)
			near("stdev", got.Stdev, want.Stdev, 1e-6)
			near("p50", float64(got.P50), float64(want.P50), 1e-3)
			near("p90", float64(got.P90), float64(want.P90), 1e-3)
			near("p99", float64(got.P99), float64(want.P99), 1e-3)
			near("p99.9", float64(got.P999), float64(want.P999), 1e-3)
			near("p99.99", float64(got.P9999), float64(want.P9999), 1e-3)
			n := int64(0)
			for _, b := range l.Buckets() {
				n += b.Count
			}
			if uint64(n) != want.Count {
				t.Errorf("buckets hold %d samples, want %d", n, want.Count)
			}
		})
	}
}

func TestLatencyOutOfRange(t *testing.T) {
	l := NewLatency()
	none := Summary{P50: TooFew, P90: TooFew, P99: TooFew, P999: TooFew, P9999: TooFew}
	if s := l.Summary(); s != none {
		t.Errorf("empty summary = %+v", s)
	}
	l.Record(100)
	l.Record(4 * 3600 * 1e9)
	if s := l.Summary(); s.OutOfRange != 1 || s.Count != 2 || s.Max != 4*3600*1e9 {
		t.Errorf("summary = %+v, want one of two samples out of range and the maximum kept", s)
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	for _, l := range []*Latency{NewLatency(), NewExact(500)} {
		if n := testing.AllocsPerRun(1000, func() { l.Record(1500) }); n != 0 {
			t.Errorf("Record allocates %v times", n)
		}
	}
	s := NewStamps(10000, 10000, 1)
	if n := testing.AllocsPerRun(1000, func() { s.Post(1); s.Done(1, 2) }); n != 0 {
		t.Errorf("Post and Done allocate %v times", n)
	}
}

// TestPeakAgainstAllPairs compares with perftest's way to find the peak.
func TestPeakAgainstAllPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		step := []int{1, 4}[round%2]
		mod := []int{1, 4, 20}[round%3]
		n := 40 + 20*rng.IntN(20)
		n -= n % (step * mod)
		s := NewStamps(n/step, n/mod+1, step)
		var post []int64
		now := int64(1000)
		for range n / step {
			now += 1 + int64(rng.IntN(50))
			post = append(post, now)
			s.Post(now)
		}
		type done struct{ c, at int64 }
		var dones []done
		at := int64(0)
		for c := mod; c <= n; c += mod {
			at = max(at+1+int64(rng.IntN(60)), post[(c-1)/step]+1)
			dones = append(dones, done{int64(c), at})
			s.Done(int64(c), at)
		}
		want := math.Inf(1)
		for i, p := range post {
			for _, d := range dones {
				if m := d.c - int64(i*step); m > 0 {
					want = min(want, float64(d.at-p)/float64(m))
				}
			}
		}
		if got := s.PeakTicks(); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("round %d (n %d, step %d, mod %d): peak %v ticks per message, want %v", round, n, step, mod, got,
				want)
		}
	}
	if got := NewStamps(1, 1, 1).PeakTicks(); got != 0 {
		t.Errorf("peak of nothing = %v", got)
	}
}
