package progress

import (
	"math"
	"time"
)

// What follows is for the tests of packages above this one.

// AtRest reports whether the CQ is armed, the poller sleeps or is about to, and the timer does not run.
func (p *Progress) AtRest() bool { return p.load()&(sleeperBit-1)&^recent == 0 }

// Reader returns the name of the reader of events: poller, evicted (the poller), waiter or nobody.
func (p *Progress) Reader() string { return p.load().reader().String() }

// Sleepers returns how many goroutines depend on another one.
func (p *Progress) Sleepers() int { return int(p.load().sleepers()) }

// Hold takes the turn, and returns a function that returns it.
func (p *Progress) Hold() (release func()) {
	for !p.take() {
		time.Sleep(Absence / 10)
	}
	return func() { p.cover(0, false) }
}

// Armed reports whether the CQ is armed, as far as is known. Preconditions: Hold.
func (p *Progress) Armed() bool { return p.armed && !p.load().has(event) }

// LeadNext lets the next WaitSignal read events, if no other goroutine waits.
func (p *Progress) LeadNext() {
	p.streak.Store(EvictAfter)
	p.last.Store(math.MaxInt64 / 2) // far from the largest, since a test may set the clock back
}

// Reading reports whether a goroutine waits for the signal and reads events meanwhile.
func (s *Signal) Reading() bool { return s.state.Load() == reading }
