// Package turn bounds waits, and lets one goroutine at a time do something.
package turn

import (
	"context"
	"errors"
	"os"

	"github.com/pureverbs/pureverbs/internal/deadline"
)

// Bound may end a wait: a context, or a deadline that can be moved meanwhile. The zero value never does.
type Bound struct {
	Ctx      context.Context    // may be nil
	Deadline *deadline.Deadline // may be nil
	Now      bool               // nothing is waited for
}

// ErrWouldWait is returned instead of waiting, for a Bound with Now.
var ErrWouldWait = errors.New("nothing yet")

// Expired returns the error of a bound that has ended.
func (b Bound) Expired() error {
	if b.Ctx != nil && b.Ctx.Err() != nil {
		return b.Ctx.Err()
	}
	if b.Deadline != nil && deadline.IsClosed(b.Deadline.Past()) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Ends returns what is closed when the bound has ended.
func (b Bound) Ends() (done, late <-chan struct{}) {
	if b.Ctx != nil {
		done = b.Ctx.Done()
	}
	if b.Deadline != nil {
		late = b.Deadline.Past()
	}
	return done, late
}

// Wait waits for ch.
func (b Bound) Wait(ch <-chan struct{}) error {
	done, late := b.Ends()
	select {
	case <-ch:
		return nil
	case <-done:
		return b.Ctx.Err()
	case <-late:
		return os.ErrDeadlineExceeded
	}
}
