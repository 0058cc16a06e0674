package plan

import "github.com/pureverbs/pureverbs/cmd/perf/internal/wire"

// maxThreads bounds a mistake; each thread is one that polls.
const maxThreads = 1024

// Thread returns which thread has queue pair i. Each has as many, one after the other.
func (p *Plan) Thread(i int) int { return i % p.Queues.QPs / (p.Queues.QPs / p.ThreadCount()) }

// checkThreads checks how queue pairs are divided among threads.
func (p *Plan) checkThreads() []error {
	n, q := p.Queues.Threads, &p.Queues
	if n == 0 || n == 1 {
		return nil
	}
	return first(
		wrong(n < 0 || n > maxThreads, "threads (--threads) %d; allowed: 1 to %d", n, maxThreads),
		wrong(q.QPs%n != 0, "threads (--threads) %d: queue pairs %d (-q) is not a multiple", n, q.QPs),
		wrong(q.UseSRQ || p.Transport == wire.XRC || p.Transport == wire.DC,
			"threads (--threads) %d: each has its own receives, so no --use-srq, -c XRC or -c DC", n),
		wrong(p.Peer.RDMACM && p.Transport == wire.UD,
			"threads (--threads) %d: not with rdma_cm (-R) and UD (-c), whose queue pairs share one CQ", n))
}

// alone reports whether this end's software has nothing to do in a test of latency.
func (p *Plan) alone() bool { return p.Metric == wire.Latency && p.Verb.Fetches() && !p.Client() }
