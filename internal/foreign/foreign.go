// Package foreign calls functions of the program that uses this module. Such a function may panic, end its goroutine,
// never return, call back, or close the object that calls it. So no lock is held during a call.
package foreign

import (
	"errors"
	"sync/atomic"
)

// Errors of Calls.Wait.
var (
	// ErrExited is returned when a function has ended its goroutine, as testing.T.FailNow does.
	ErrExited = errors.New("the function has ended its goroutine (runtime.Goexit) instead of returning")
	// ErrLeft is returned when a function is not waited for any longer.
	ErrLeft = errors.New("the function has not returned in time")
	// ErrStuck is returned when too many functions have not returned.
	ErrStuck = errors.New("the function is not called, because too many calls of it have not returned")
)

// Most is how many calls of a Calls there may be at a time.
const Most = 16384

// Call calls f on this goroutine, and then after, which may be nil. returned is false if f did not return: it panics,
// or ends the goroutine. Then after must not wait, because a panic that nobody recovers must end the program at once.
// Call recovers none.
func Call(f func(), after func(returned bool)) {
	returned := false
	if after != nil {
		defer func() { after(returned) }()
	}
	f()
	returned = true
}

// Calls are calls that have a goroutine of their own, because they may not return.
type Calls struct{ n atomic.Int64 }

// Wait calls f, and waits until it has ended or done is closed. The error is nil if f has returned. With ErrLeft, f is
// still at work, so the caller must not use what it writes.
func (c *Calls) Wait(done <-chan struct{}, f func()) error {
	if c.n.Add(1) > Most {
		c.n.Add(-1)
		return ErrStuck
	}
	ended := make(chan bool, 1)
	go Call(f, func(returned bool) {
		c.n.Add(-1)
		ended <- returned
	})
	select {
	case returned := <-ended:
		if !returned {
			return ErrExited
		}
		return nil
	case <-done:
		return ErrLeft
	}
}
