package attempts

import (
	"context"
	"errors"
	"sync"
)

// ErrLost is the end of an attempt when another has become the connection.
var ErrLost = errors.New("another attempt has become the connection")

// Finish lets one attempt of several become a connection. Until its last step, after which the listener has the
// connection, an attempt can be given up without the listener's program seeing it. So one attempt at a time takes its
// last step, and none after one has succeeded.
type Finish struct {
	mu        sync.Mutex
	last      bool               // an attempt is in its last step
	won       bool               // an attempt has succeeded
	interrupt context.CancelFunc // of an attempt of Whole, or nil
	change    chan struct{}      // closed when one of these changes
}

// changed wakes those that wait.
// Preconditions: f.mu is held.
func (f *Finish) changed() {
	if f.change != nil {
		close(f.change)
		f.change = nil
	}
}

// until waits until ready returns true, and returns with f.mu held, or with an error without it.
func (f *Finish) until(ctx context.Context, ready func() bool) error {
	for {
		f.mu.Lock()
		switch {
		case f.won:
			f.mu.Unlock()
			return ErrLost
		case ready():
			return nil
		}
		if f.change == nil {
			f.change = make(chan struct{})
		}
		change := f.change
		f.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Begin waits until an attempt may take its last step. If there is no error, the caller calls End afterwards.
func (f *Finish) Begin(ctx context.Context) error {
	if err := f.until(ctx, func() bool { return !f.last }); err != nil {
		return err
	}
	f.last = true
	if f.interrupt != nil {
		f.interrupt()
	}
	f.mu.Unlock()
	err := f.until(ctx, func() bool { return f.interrupt == nil })
	if err != nil {
		f.End(false)
		return err
	}
	f.mu.Unlock()
	return nil
}

// End ends the last step of an attempt.
func (f *Finish) End(ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = false
	f.won = f.won || ok
	f.changed()
}

// Whole runs an attempt that cannot be held before its last step, such as a dial by TCP: it is interrupted for the last
// step of another, and repeated if that fails. connect returns the connection if it is there when its context ends.
func Whole[C any](ctx context.Context, f *Finish, connect func(context.Context) (C, error)) (C, error) {
	for {
		if err := f.until(ctx, func() bool { return !f.last && f.interrupt == nil }); err != nil {
			var none C
			return none, err
		}
		one, interrupt := context.WithCancel(ctx)
		f.interrupt = interrupt
		f.mu.Unlock()
		c, err := connect(one)
		interrupted := one.Err() != nil
		interrupt()
		f.mu.Lock()
		f.interrupt, f.won = nil, err == nil
		f.changed()
		f.mu.Unlock()
		if err == nil || ctx.Err() != nil || !interrupted {
			return c, err
		}
	}
}
