// Package deadline has the deadlines of connections.
package deadline

import (
	"sync"
	"time"
)

// Deadline is a point in time that can be moved while somebody waits for it. The zero value is never.
type Deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	past  chan struct{}
	ended bool
}

// Set moves the deadline; the zero time is never.
func (d *Deadline) Set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	d.stop()
	if d.past == nil || IsClosed(d.past) {
		d.past = make(chan struct{})
	}
	past := d.past
	switch left := time.Until(t); {
	case t.IsZero():
	case left <= 0:
		close(past)
	default:
		d.timer = time.AfterFunc(left, func() { close(past) })
	}
}

// stop stops the timer.
// Preconditions: d.mu is held.
func (d *Deadline) stop() {
	if d.timer != nil && !d.timer.Stop() {
		<-d.past // it is just about to be closed
	}
	d.timer = nil
}

// Stop removes the deadline for good: Set has no effect any more. Nothing is left that would run later.
func (d *Deadline) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop()
	d.ended = true
	if d.past != nil && IsClosed(d.past) {
		d.past = nil
	}
}

// Past returns a channel that is closed when the deadline is past. A goroutine that waits for it sees the deadline
// move, unless it was past already.
func (d *Deadline) Past() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.past == nil {
		d.past = make(chan struct{})
	}
	return d.past
}

// IsClosed reports whether a channel on which nothing is sent was closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
