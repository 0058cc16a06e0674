package plan

import "github.com/pureverbs/pureverbs/cmd/perf/internal/wire"

// maxThreads bounds a mistake; each thread is one that polls.
const maxThreads = 1024

// Thread returns which thread has queue pair i. Each has as many, one after the other.
func (p *Plan) Thread(i int) int { return i % p.Queues.QPs / (p.Queues.QPs / p.ThreadCount()) }

// checkThreads checks how queue pairs are divided among threads.
func (p *Plan) checkThreads(c *complaints) {
	switch n := p.Queues.Threads; {
	case n < 0 || n > maxThreads:
		c.add("threads (--threads) %d; allowed: 1 to %d", n, maxThreads)
	case n <= 1:
	case p.Queues.QPs%n != 0:
		c.add("threads (--threads) %d: queue pairs %d (-q) is not a multiple", n, p.Queues.QPs)
	case p.Queues.UseSRQ || p.Transport == wire.XRC || p.Transport == wire.DC:
		c.add("threads (--threads) %d: each has its own receives, so no --use-srq, -c XRC or -c DC", n)
	case p.Peer.RDMACM && p.Transport == wire.UD:
		c.add("threads (--threads) %d: not with rdma_cm (-R) and UD (-c), whose queue pairs share one CQ", n)
	}
}

// alone reports whether this end's software has nothing to do in a test of latency.
func (p *Plan) alone() bool { return p.Metric == wire.Latency && p.Verb.Fetches() && !p.Client() }
