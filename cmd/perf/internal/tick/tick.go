// Package tick waits for a while, and calls functions now and then.
package tick

import (
	"context"
	"time"
)

// Wait waits, at most until ctx ends, and reports whether it goes on.
func Wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}

// Every calls f now and then, until the function that it returns, which waits for a call that is under way.
func Every(d time.Duration, f func()) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				f()
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}
