package cm

import (
	"sync"
	"time"
)

// deadline is a point in time that can be moved while somebody waits for it.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	past  chan struct{}
}

// set moves the deadline; the zero time is never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.past // it is just about to be closed
	}
	d.timer = nil
	if d.past == nil || isClosed(d.past) {
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

// wait is closed when the deadline is past. A deadline that is moved away leaves
// those who wait already with the channel that they have.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.past == nil {
		d.past = make(chan struct{})
	}
	return d.past
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
