package rdma

import (
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// bound may end a wait.
type bound = turn.Bound

var errWouldWait = turn.ErrWouldWait

// waitData waits for the signal of a connection's reader or writer. p, which may be nil, decides whether it polls
// meanwhile.
func (e *shard) waitData(b bound, s *progress.Signal, p *progress.Patience) error {
	return e.progress.WaitSignal(b, s, p)
}

// wait waits for ch.
func (e *shard) wait(b bound, ch <-chan struct{}) error { return e.progress.Wait(b, ch) }

// pollMeanwhile has completions handled at once until stop is called, for callers that wait for something that wait
// does not know.
func (e *shard) pollMeanwhile() (stop func()) { return e.progress.Meanwhile() }

// catchUp handles what has come, unless stop is closed before.
func (e *shard) catchUp(stop <-chan struct{}) { e.progress.CatchUp(stop) }

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
