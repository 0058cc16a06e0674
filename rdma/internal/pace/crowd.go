package pace

import (
	"sync/atomic"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Crowd limits the windows of a shard's connections when there are no blocks left to promise: those of idle connections
// to what they began with, those of others to an equal share. One goroutine at a time calls Tick and Fit.
type Crowd struct {
	Share  atomic.Uint32 // most of a window
	Full   atomic.Bool   // a window could not grow since the last tick
	shrink bool          // in this tick
	active int           // connections that were not idle in this tick
}

// Tick begins a tick. blocks is how many windows may have together, most how many one may have.
func (c *Crowd) Tick(blocks int, most uint32) {
	if c.shrink = c.Full.Swap(false); c.shrink {
		most = min(uint32(max(blocks/max(c.active, 1), wire.MinLimit)), most)
	}
	c.Share.Store(most)
	c.active = 0
}

// Fit returns the limit of a connection's window in this tick, and reports whether a larger one is to shrink to it.
func (c *Crowd) Fit(idle bool) (most uint32, shrink bool) {
	if idle {
		return wire.MinLimit, c.shrink
	}
	c.active++
	return c.Share.Load(), c.shrink
}
