//go:build linux

package engine

import (
	"cmp"
	"time"
)

// Config tunes the loop. The zero value of a field stands for its default.
type Config struct {
	// Spin is how long doorbells are scanned without a pause after the last work. It is short: the programs' pollers
	// need the processor.
	Spin time.Duration
	// Sleeps are the pauses between scans: the first whose Idle is longer than nothing happened, else the last. A pause
	// below 12 µs may never give the processor away: the timer fires before the switch is done.
	Sleeps []Sleep
	// Turn bounds how long the fabric's lock is held.
	Turn time.Duration
	// Batch bounds the WQEs of one queue pair that are executed together, Bounce their bytes.
	Batch, Bounce int
	// Strict checks the rules and reports violations to the fabric's Watcher.
	Strict bool
}

// Sleep is one step of the adaptive pause.
type Sleep struct{ Idle, Pause time.Duration }

func (c *Config) fill() {
	c.Spin = cmp.Or(c.Spin, 2*time.Microsecond)
	if len(c.Sleeps) == 0 {
		c.Sleeps = []Sleep{
			{2 * time.Millisecond, 15 * time.Microsecond},
			{10 * time.Millisecond, 50 * time.Microsecond},
			{100 * time.Millisecond, 200 * time.Microsecond},
			{time.Second, time.Millisecond},
			{1 << 62, 10 * time.Millisecond},
		}
	}
	c.Turn = cmp.Or(c.Turn, 60*time.Microsecond)
	c.Batch = cmp.Or(c.Batch, 64)
	c.Bounce = cmp.Or(c.Bounce, 256<<10)
}
