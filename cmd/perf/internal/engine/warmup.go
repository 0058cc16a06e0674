package engine

import (
	"context"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/loop"
)

// warmUp moves messages of a size that do not count, as many as the send queues hold, as perftest does. The links are
// at their beginning again.
func (r *run) warmUp(size uint64) error {
	p := &r.plan
	if !p.Load.WarmUp {
		return nil
	}
	for _, l := range r.links {
		l.Messages = uint64(p.Queues.TxDepth / p.Queues.PostList * p.Queues.PostList)
	}
	r.begin(size)
	err := r.guard(size, 0, func(ctx context.Context, i int) error {
		t := r.threads[i]
		l := &loop.Bandwidth{Monitor: t.mon, Links: t.links, Depth: uint64(p.Queues.TxDepth)}
		l.Sends = r.ordered(r.poller(ctx, t.sends))
		return l.Run()
	})
	for _, l := range r.links {
		l.Messages = p.Messages()
	}
	r.begin(size)
	return err
}
