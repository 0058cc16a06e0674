package tick

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Wait(t.Context(), time.Second) || time.Since(began) != time.Second {
			t.Errorf("it ended after %v, want 1s", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if Wait(ctx, time.Hour) || time.Since(began) != 2*time.Second {
			t.Errorf("it ended after %v, or goes on without its context", time.Since(began))
		}
	})
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		stop := Every(time.Second, func() { calls++ })
		time.Sleep(3500 * time.Millisecond)
		stop()
		time.Sleep(time.Hour)
		if calls != 3 {
			t.Errorf("%d calls, want 3", calls)
		}
	})
}
