package rdma

import (
	"context"
	"os"

	"github.com/pureverbs/pureverbs/internal/deadline"
)

// bound may end a wait: a context, or a deadline that can be moved meanwhile.
type bound struct {
	ctx      context.Context    // may be nil
	deadline *deadline.Deadline // may be nil
	now      bool               // nothing is waited for
}

// expired returns the error of a bound that has ended.
func (b bound) expired() error {
	if b.ctx != nil && b.ctx.Err() != nil {
		return b.ctx.Err()
	}
	if b.deadline != nil && deadline.IsClosed(b.deadline.Past()) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// ends returns what is closed when the bound has ended.
func (b bound) ends() (done, late <-chan struct{}) {
	if b.ctx != nil {
		done = b.ctx.Done()
	}
	if b.deadline != nil {
		late = b.deadline.Past()
	}
	return done, late
}

// wait waits for ch.
func (b bound) wait(ch <-chan struct{}) error {
	done, late := b.ends()
	select {
	case <-ch:
		return nil
	case <-done:
		return b.ctx.Err()
	case <-late:
		return os.ErrDeadlineExceeded
	}
}

// enter takes a turn, which the caller returns with leave.
func (b bound) enter(turn chan struct{}) error {
	if err := b.expired(); err != nil {
		return err
	}
	select {
	case turn <- struct{}{}:
		return nil
	default:
	}
	if b.now {
		return errWouldWait
	}
	done, late := b.ends()
	select {
	case turn <- struct{}{}:
		return nil
	case <-done:
		return b.ctx.Err()
	case <-late:
		return os.ErrDeadlineExceeded
	}
}

func leave(turn chan struct{}) { <-turn }
