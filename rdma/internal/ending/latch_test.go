package ending

import (
	"sync"
	"testing"

	"github.com/pureverbs/pureverbs/internal/deadline"
)

func TestLatch(t *testing.T) {
	var early, late Latch
	ch := early.Done()
	if deadline.IsClosed(ch) || early.Done() != ch {
		t.Error("an event that has not happened: want one channel, open")
	}
	for range 2 {
		early.Happen()
		late.Happen()
	}
	if !deadline.IsClosed(ch) || !deadline.IsClosed(early.Done()) || !deadline.IsClosed(late.Done()) {
		t.Error("the event has happened, and a channel is open")
	}
}

// TestLatch_Race has waiters come while the event happens.
func TestLatch_Race(t *testing.T) {
	for range 1000 {
		var l Latch
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { <-l.Done() })
			all.Go(l.Happen)
		}
		all.Wait()
	}
}
