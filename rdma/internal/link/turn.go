package link

import (
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// waitData waits for the signal of a connection's reader or writer. p, which may be nil, decides whether it polls
// meanwhile.
func (e *Shard) waitData(b turn.Bound, s *progress.Signal, p *progress.Patience) error {
	return e.Progress.WaitSignal(b, s, p)
}

// Wait waits for ch.
func (e *Shard) Wait(b turn.Bound, ch <-chan struct{}) error { return e.Progress.Wait(b, ch) }

// PollMeanwhile has completions handled at once until stop is called, for callers that wait for something that wait
// does not know.
func (e *Shard) PollMeanwhile() (stop func()) { return e.Progress.Meanwhile() }

// catchUp handles what has come, unless stop is closed before.
func (e *Shard) catchUp(stop <-chan struct{}) { e.Progress.CatchUp(stop) }

// Wake puts a token into a channel that has room for one.
func Wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
