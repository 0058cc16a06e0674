//go:build linux

package engine

import (
	"cmp"
	"time"
)

// Config tunes the loop. The zero value of a field stands for its default.
type Config struct {
	// Turn bounds how long the fabric's lock is held.
	Turn time.Duration
	// Batch bounds the WQEs of one queue pair that are executed together.
	Batch int
	// Strict checks the rules and reports violations to the fabric's Watcher.
	Strict bool
}

func (c *Config) fill() {
	c.Turn = cmp.Or(c.Turn, 60*time.Microsecond)
	c.Batch = cmp.Or(c.Batch, 64)
}

const (
	// bounce bounds the bytes of a batch.
	bounce = 256 << 10
	// spin is how long doorbells are scanned without a pause after the last work. It is short: the programs' pollers
	// need the processor.
	spin = 2 * time.Microsecond
)

// pauses are those between scans: the first whose idle is longer than nothing happened, else the last. A pause below
// 12 µs may never give the processor away: the timer fires before the switch is done.
var pauses = [...]struct{ idle, pause time.Duration }{
	{2 * time.Millisecond, 15 * time.Microsecond},
	{10 * time.Millisecond, 50 * time.Microsecond},
	{100 * time.Millisecond, 200 * time.Microsecond},
	{time.Second, time.Millisecond},
	{1 << 62, 10 * time.Millisecond},
}
