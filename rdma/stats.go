package rdma

import "sync/atomic"

// stats counts what the poller does, and how often others had to wait.
type stats struct{ batches, completions, wakes atomic.Uint64 }

// Stats are the counters of an engine.
type Stats struct {
	Conns        int    // connections, with those that are being closed
	Blocks       int    // registered
	BlocksFree   int    // of them, on the free list
	BlocksHeld   int    // received, and not given back
	BlocksPosted int    // receives that are posted
	Memory       int64  // bytes registered, of blocks and buffers
	Buffers      int    // of the pool, that were not given back
	Batches      uint64 // turns of the poller in which there was something
	Completions  uint64 // handled in them
	Frames       uint64 // received
	Wakes        uint64 // of goroutines that waited to send or to receive
}

// Stats returns the counters. When no connection is open, every block is free or
// posted.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Stats{
		Conns: len(e.conns), Blocks: len(e.slabs) * e.perSlab, BlocksFree: len(e.free),
		BlocksHeld: e.held(), BlocksPosted: e.have - e.held(), Memory: e.budget.used(),
		Buffers: e.pool.inUse(),
		Batches: e.stat.batches.Load(), Completions: e.stat.completions.Load(), Frames: e.arrived.Load(),
		Wakes: e.stat.wakes.Load(),
	}
}
