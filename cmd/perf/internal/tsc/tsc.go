// Package tsc is a cheap monotonic clock for measuring loops.
//
// Where the processor has a counter of constant rate that all its cores share,
// Now is one instruction. Elsewhere Now is the monotonic clock of the system.
// Either way a reading means something only together with the Clock it came
// from, which knows how many nanoseconds a tick has.
package tsc

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// calibration is how long a Clock must have lived before its rate is exact
// enough: reading both clocks costs well below 10 µs even under emulation.
const calibration = 20 * time.Millisecond

// Clock turns readings of Now into nanoseconds. Safe for concurrent use, as
// nothing in it changes.
type Clock struct {
	counter bool
	why     string // why not the counter
	base    time.Time
	tick0   int64
}

// New returns a clock that uses the processor's counter where that can be
// trusted, and the monotonic clock of the system otherwise.
func New() *Clock {
	c := &Clock{base: time.Now()}
	c.counter, c.why = usable()
	c.tick0 = c.Now()
	return c
}

// Shared returns the clock of this process, which is old enough after its first test.
var Shared = sync.OnceValue(New)

// Now reads the clock, in ticks.
func (c *Clock) Now() int64 {
	if c.counter {
		return counter()
	}
	return int64(time.Since(c.base))
}

// Rate returns nanoseconds per tick, measured from New until now against the
// monotonic clock. It waits until the clock is old enough to be exact.
func (c *Clock) Rate() float64 {
	if !c.counter {
		return 1
	}
	if age := time.Since(c.base); age < calibration {
		time.Sleep(calibration - age)
	}
	// The reading with the shortest bracket is the least disturbed one.
	best, rate := int64(math.MaxInt64), 1.0
	for range 5 {
		t0 := counter()
		ns := time.Since(c.base)
		t1 := counter()
		if w := t1 - t0; w >= 0 && w < best {
			best = w
			rate = float64(ns) / (float64(t0-c.tick0) + float64(w)/2)
		}
	}
	return rate
}

// Ticks converts a duration into ticks.
func (c *Clock) Ticks(d time.Duration) int64 {
	return int64(float64(d) / c.Rate())
}

// String returns the source of the clock, for reports.
func (c *Clock) String() string {
	if c.counter {
		return fmt.Sprintf("%s, %.3f GHz", counterName, 1/c.Rate())
	}
	return "CLOCK_MONOTONIC (" + c.why + ")"
}
