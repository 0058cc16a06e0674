package tsc

import (
	"fmt"
	"math"
	"strings"
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
			// A busy machine may take the processor away between two readings: one undisturbed measurement is enough.
			var off []string
			for range 100 {
				s0, t0 := time.Now(), tc.c.Now()
				time.Sleep(20 * time.Millisecond)
				t1, el := tc.c.Now(), time.Since(s0)
				got := float64(t1-t0) * rate
				d := math.Abs(got-float64(el)) / float64(el)
				if d <= 0.05 {
					off = nil
					break
				}
				off = append(off, fmt.Sprintf("%v as %.0f ns, %.1f %% off", el, got, 100*d))
			}
			if off != nil {
				t.Errorf("%v: measured %s", tc.c, strings.Join(off, ", "))
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

// NewSystem returns a clock that reads the monotonic clock of the system.
func NewSystem() *Clock {
	c := &Clock{base: time.Now(), why: "the system clock was asked for"}
	c.tick0 = c.Now()
	return c
}
