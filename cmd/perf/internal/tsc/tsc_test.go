package tsc

import (
	"math"
	"testing"
	"time"
)

func TestClockAgreesWithSystem(t *testing.T) {
	for _, tc := range []struct {
		name string
		c    *Clock
	}{{"counter", New()}, {"system", NewSystem()}} {
		t.Run(tc.name, func(t *testing.T) {
			rate := tc.c.Rate()
			s0, t0 := time.Now(), tc.c.Now()
			time.Sleep(100 * time.Millisecond)
			t1, el := tc.c.Now(), time.Since(s0)
			got := float64(t1-t0) * rate
			// A loaded machine may be descheduled between the two readings.
			if d := math.Abs(got-float64(el)) / float64(el); d > 0.05 {
				t.Errorf("%v: measured %v as %.0f ns, %.1f %% off", tc.c, el, got, 100*d)
			}
			if tk := tc.c.Ticks(time.Second); math.Abs(float64(tk)*rate/1e9-1) > 0.01 {
				t.Errorf("Ticks(1s) = %d at %.4f ns per tick", tk, rate)
			}
			if tc.c.String() == "" {
				t.Error("empty String")
			}
		})
	}
}

func TestNowDoesNotGoBack(t *testing.T) {
	c := New()
	last := c.Now()
	for range 100000 {
		n := c.Now()
		if n < last {
			t.Fatalf("clock went back from %d to %d", last, n)
		}
		last = n
	}
	if n := testing.AllocsPerRun(100, func() { last = c.Now() }); n != 0 {
		t.Errorf("Now allocates %v times", n)
	}
}

func BenchmarkNow(b *testing.B) {
	for _, c := range []*Clock{New(), NewSystem()} {
		b.Run(c.String(), func(b *testing.B) {
			for b.Loop() {
				c.Now()
			}
		})
	}
}
