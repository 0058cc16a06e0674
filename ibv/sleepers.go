package ibv

import "sync"

// sleepers are the goroutines that sleep until something happens to a CQ.
type sleepers struct {
	waitMu  sync.Mutex
	waiters []*waiter
	idle    []*waiter // for reuse
	failed  failure   // of the CQ, by EventCQErr
}

// waiter is a goroutine asleep in Wait.
type waiter struct{ ch chan struct{} }

// wake lets every waiter poll again: an event is for the CQ, and the one that
// is woken may not be the one that needs the completion.
func (s *sleepers) wake() {
	s.waitMu.Lock()
	for _, w := range s.waiters {
		select {
		case w.ch <- struct{}{}:
		default:
		}
	}
	s.waitMu.Unlock()
}

func (s *sleepers) join() *waiter {
	s.waitMu.Lock()
	defer s.waitMu.Unlock()
	var w *waiter
	if n := len(s.idle); n > 0 {
		w, s.idle = s.idle[n-1], s.idle[:n-1]
	} else {
		w = &waiter{ch: make(chan struct{}, 1)}
	}
	s.waiters = append(s.waiters, w)
	return w
}

func (s *sleepers) part(w *waiter) {
	s.waitMu.Lock()
	defer s.waitMu.Unlock()
	for i, o := range s.waiters {
		if o == w {
			last := len(s.waiters) - 1
			s.waiters[i] = s.waiters[last]
			s.waiters = s.waiters[:last]
			break
		}
	}
	select {
	case <-w.ch:
	default:
	}
	s.idle = append(s.idle, w)
}
