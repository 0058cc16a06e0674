package rdma

import "github.com/pureverbs/pureverbs/rdma/internal/link"

// Stats are the counters of an engine.
type Stats struct {
	Conns        int    // connections, with those that are being closed
	Blocks       int    // registered
	BlocksFree   int    // of them, on the free list
	BlocksHeld   int    // received, and not given back
	BlocksPosted int    // receives that are posted
	Promised     int    // blocks that peers may fill or have filled, and frames that wait for credits have
	Compact      int    // connections whose peers may send short frames only, because many had begun before
	Stalled      int    // connections with something to send for which the peer's program has not read enough
	Memory       int64  // bytes of blocks, buffers, and messages that are being copied together
	Buffers      int    // of the pool, that were not given back
	Leases       int    // that have not ended, of this side's memory
	Windows      int    // memory windows that leases use
	Batches      uint64 // turns of the poller in which there was something
	Completions  uint64 // handled in them
	Frames       uint64 // received
	Wakes        uint64 // of goroutines that waited to send or to receive
	Doorbells    uint64 // postings of frames, of several at a time
	Refused      uint64 // peers that listeners refused, or whose handshake took too long; see Listener.Refused
}

// Stats returns the counters. When no connection is open, every block is free or
// posted.
func (e *Engine) Stats() Stats {
	sum := Stats{Memory: e.e.Budget.Used(), Buffers: e.e.Pool.InUse(), Windows: e.e.Windows.InUse()}
	for _, s := range e.e.Shards {
		sum.add(s)
	}
	return sum
}

// add adds the counters of a shard.
func (sum *Stats) add(e *link.Shard) {
	sum.Conns += e.Members.Count()
	sum.Stalled += e.Stalled()
	c := e.Blocks.Counts()
	sum.Promised += c.Promised
	sum.Compact += c.Compact
	sum.Blocks += c.Blocks
	sum.BlocksFree += c.Free
	sum.BlocksHeld += c.Held
	sum.BlocksPosted += c.Posted
	sum.Leases += int(e.Stat.Leases.Load())
	sum.Batches += e.Stat.Batches.Load()
	sum.Completions += e.Stat.Completions.Load()
	sum.Refused += e.Stat.Refused.Load()
	sum.Doorbells += e.Stat.Doorbells.Load()
	sum.Frames += c.Arrived
	sum.Wakes += e.Progress.Wakes.Load()
}
