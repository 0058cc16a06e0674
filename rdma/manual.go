package rdma

import (
	"context"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
)

// Poll handles the completions that are there, and returns how many. It does not wait. While another
// goroutine is in Poll or Wait, it returns 0, and after Close an error that matches ErrClosed. The engine has
// EngineOptions.Manual; if the device has failed, the connections report it.
func (e *Engine) Poll() (int, error) {
	if err := e.manual("poll"); err != nil {
		return 0, err
	}
	n, err := e.e.Shards[0].Progress.Poll()
	return n, e.polled("poll", err)
}

// Wait is Poll, and waits until there is a completion, ctx ends or the engine is closed.
func (e *Engine) Wait(ctx context.Context) (int, error) {
	if err := e.manual("wait"); err != nil {
		return 0, err
	}
	n, err := e.e.Shards[0].Progress.PollWait(ctx)
	return n, e.polled("wait", err)
}

func (e *Engine) polled(op string, err error) error {
	if err == progress.ErrStopped {
		return &ibv.OpError{Op: op, Object: "engine of " + e.e.Name(), Err: ErrClosed}
	}
	return err
}

func (e *Engine) manual(op string) error {
	if e.e.Options.Manual {
		return nil
	}
	return &ibv.OpError{Op: op, Object: "engine of " + e.e.Name(), Err: &ibv.ArgError{Arg: "engine",
		Got: "one with a poller of its own", Want: "one with EngineOptions.Manual"}}
}
