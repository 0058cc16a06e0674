package rdma

import (
	"context"
	"os"
	"sync"
	"time"
)

// bound is what may end a wait: a context, or a deadline that can be moved meanwhile.
type bound struct {
	ctx      context.Context // may be nil
	deadline *deadline       // may be nil
	now      bool            // nothing is waited for
}

// expired returns the error of a bound that has ended.
func (b bound) expired() error {
	if b.ctx != nil && b.ctx.Err() != nil {
		return b.ctx.Err()
	}
	if b.deadline != nil && isClosed(b.deadline.wait()) {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// wait waits for ch.
func (b bound) wait(ch <-chan struct{}) error {
	var done, late <-chan struct{}
	if b.ctx != nil {
		done = b.ctx.Done()
	}
	if b.deadline != nil {
		late = b.deadline.wait()
	}
	select {
	case <-ch:
		return nil
	case <-done:
		return b.ctx.Err()
	case <-late:
		return os.ErrDeadlineExceeded
	}
}

// enter takes a turn, which the caller gives back by leave.
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
	var done, late <-chan struct{}
	if b.ctx != nil {
		done = b.ctx.Done()
	}
	if b.deadline != nil {
		late = b.deadline.wait()
	}
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

// deadline is a time after which a channel is closed.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	past  chan struct{}
}

func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.past == nil {
		d.past = make(chan struct{})
	}
	return d.past
}

// set moves the deadline; the zero time removes it.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.past == nil {
		d.past = make(chan struct{})
	}
	if d.timer != nil && !d.timer.Stop() {
		<-d.past // it is closing, or is closed
	}
	d.timer = nil
	was := isClosed(d.past)
	if was && (t.IsZero() || time.Until(t) > 0) {
		d.past = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	if left := time.Until(t); left > 0 {
		past := d.past
		d.timer = time.AfterFunc(left, func() { close(past) })
		return
	}
	if !was {
		close(d.past)
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
