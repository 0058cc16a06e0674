package rdma

import "sync/atomic"

// crowd limits the windows of a shard's connections when there are no blocks left to promise: those of idle connections
// to what they began with, those of others to an equal share. One goroutine at a time calls tick and fit.
type crowd struct {
	share  atomic.Uint32 // most of a window
	full   atomic.Bool   // a window could not grow since the last tick
	shrink bool          // in this tick
	active int           // connections that were not idle in this tick
}

// tick begins a tick. blocks is how many windows may have together, most how many one may have.
func (c *crowd) tick(blocks int, most uint32) {
	if c.shrink = c.full.Swap(false); c.shrink {
		most = min(uint32(max(blocks/max(c.active, 1), startWindow)), most)
	}
	c.share.Store(most)
	c.active = 0
}

// fit returns the limit of a connection's window in this tick, and reports whether a larger one is to shrink to it.
func (c *crowd) fit(idle bool) (most uint32, shrink bool) {
	if idle {
		return startWindow, c.shrink
	}
	c.active++
	return c.share.Load(), c.shrink
}
