package progress

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// Source is a CQ with a completion channel.
type Source interface {
	// Poll takes completions that are there, handles them, and returns how many there were, 0 only if there are none.
	// One goroutine at a time calls it, and none after an error.
	Poll() (int, error)
	// Depth returns how many completions there may be now, at most.
	Depth() int
	// Arm has the next completion raise an event. It has no effect while an event was raised and not read.
	Arm() error
	// Events is how many events were read.
	Events() uint32
	// ReadEvents waits for an event, and returns nil. It also returns nil after Interrupt. One goroutine at a time
	// calls it.
	ReadEvents() error
	// Interrupt lets ReadEvents return, or its next call if there is none now.
	Interrupt()
	// WaitEvent waits until Events is not seen any more, or one of the contexts has ended. Only a manual Progress calls
	// it, and then it does not call ReadEvents and Interrupt: somebody else reads the events.
	WaitEvent(ctx, stop context.Context, seen uint32) error
}

// ErrStopped is returned after Stop.
var ErrStopped = errors.New("polling has been stopped")

// Absence is the longest time without a poll while the CQ is not covered and no goroutine sleeps. After twice that time
// it is covered.
const Absence = time.Millisecond

// passAfter bounds the non-empty polls that a departing goroutine makes on behalf of others.
const passAfter = 8

// Options are the choices of New.
type Options struct {
	Manual bool          // no poller: goroutines that wait poll, and the program
	Spin   time.Duration // how long a goroutine that waits polls before it sleeps; below 0 never
	Fail   func(error)   // called once, with the error of a Source that has failed; it signals all that wait
}

// Progress decides which goroutine polls a source. Its methods are safe for concurrent use, unless they say otherwise.
type Progress struct {
	src    Source
	opt    Options
	state  atomic.Uint32
	timer  *time.Timer // runs look
	failed sync.Once
	left   chan struct{} // closed when the turn is returned after Stop

	// With Options.Manual.
	manual  turn.Turn       // of goroutines in Poll and PollWait
	polling turn.Turn       // of the goroutine that handles completions
	open    context.Context // ends with Stop, by end
	end     context.CancelFunc

	// Preconditions: the turn.
	armed bool // no completion and no event was seen since the CQ was armed

	// The goroutine that reads.
	promote  chan struct{} // has a token when the poller is to look whether it reads
	eviction chan ends     // from the goroutine that evicts the poller
	handover chan struct{} // the poller's reply
	ends     ends          // that the poller watches; belongs to the waiter that reads
	streak   atomic.Int32  // waits in a row
	last     atomic.Int64  // when the last began, since epoch

	// Goroutines in CatchUp.
	asked  atomic.Bool // caught is not nil
	askMu  sync.Mutex
	caught chan struct{} // closed when what had come is handled

	Wakes atomic.Uint64 // how often a goroutine slept while it waited
	Turns atomic.Uint64 // how often one polled
}

// ends are closed when a wait is to end.
type ends struct{ done, late <-chan struct{} }

// over reports whether one is closed. A deadline may have been moved since: then the goroutine waits on, and resigns,
// because the poller does not watch for the new one.
func (e ends) over() bool { return deadline.IsClosed(e.done) || deadline.IsClosed(e.late) }

func (p *Progress) String() string { return p.load().String() }

func (p *Progress) load() state { return state(p.state.Load()) }

// swap stores a state if it follows from the current one.
func (p *Progress) swap(old, new state) bool { return p.state.CompareAndSwap(uint32(old), uint32(new)) }

// step makes a transition that has an outcome.
func (p *Progress) step(next func(state) (state, bool)) bool {
	for {
		s := p.load()
		n, ok := next(s)
		if n == s || p.swap(s, n) {
			return ok
		}
	}
}

// change makes a transition without an outcome.
func (p *Progress) change(next func(state) state) {
	for s := p.load(); !p.swap(s, next(s)); s = p.load() {
	}
}
