// Package progress decides who takes the completions of a CQ, reads its events, arms it and sleeps. It knows a source
// of completions and nothing about connections.
//
// One goroutine at a time polls: the one that has the turn. Normally this is the poller, which sleeps until the device
// raises an event. A goroutine that waits for the peer's reply polls instead while it waits. That saves it two wake-ups
// and the device an event. When that goroutine leaves, there are two cases. If another goroutine sleeps, the CQ is
// armed and somebody reads its events: it is covered. Otherwise the goroutine is away: it will be back soon, and a
// timer checks after absence whether it came back.
//
// One goroutine at a time reads events: the poller, or a goroutine that waits again and again while no other goroutine
// waits. Such a goroutine also polls, so that an event wakes one goroutine. Otherwise an event wakes two, one after the
// other, and for each of them Go's scheduler wakes a thread that looks for more to do.
//
// All this is in one word (state.go), and each transition is a compare-and-swap.
package progress

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// Source is a CQ with a completion channel.
type Source interface {
	// Poll takes completions that are there, handles them, and returns how many there were. One goroutine at a time
	// calls it, and none after an error.
	Poll() (int, error)
	// Arm has the next completion raise an event. It has no effect while an event was raised and not read.
	Arm() error
	// Events is how many events were read.
	Events() uint32
	// ReadEvents waits for an event, and returns nil. It also returns nil after Interrupt. One goroutine at a time
	// calls it.
	ReadEvents() error
	// Interrupt lets ReadEvents return, or its next call if there is none now.
	Interrupt()
	// Wait is Poll, and sleeps while there is no completion. A manual Progress calls only Poll and Wait.
	Wait(ctx context.Context) (int, error)
}

// absence is the longest time without a poll while the CQ is not covered and no goroutine sleeps. After twice that time
// it is covered.
const absence = time.Millisecond

// passAfter bounds the non-empty polls that a departing goroutine makes on behalf of others.
const passAfter = 8

// Options are the choices of New.
type Options struct {
	Manual bool          // no poller: goroutines that wait poll, and the program
	Spin   time.Duration // how long a goroutine that waits polls before it sleeps; below 0 never
	Fail   func(error)   // called once, with the error of a Source that has failed; it signals all that wait
}

// Progress decides who polls a source. Its methods are safe for concurrent use, unless they say otherwise.
type Progress struct {
	src    Source
	opt    Options
	state  atomic.Uint32
	timer  *time.Timer // runs look
	failed sync.Once
	left   chan struct{} // closed when the turn is returned after Stop
	manual chan struct{} // the turn with Options.Manual, else nil

	// Preconditions: the turn.
	armed bool // no completion and no event was seen since the CQ was armed

	// The goroutine that reads.
	promote  chan struct{} // has a token when the poller is to look who reads
	eviction chan ends     // from the goroutine that evicts the poller
	handover chan struct{} // the poller's reply
	ends     ends          // that the poller watches; belongs to the waiter that reads
	streak   atomic.Int32  // waits in a row
	last     atomic.Int64  // when the last began, since epoch

	// Goroutines in CatchUp.
	asked  atomic.Bool // caught is not nil
	askMu  sync.Mutex
	caught chan struct{} // closed when the CQ was empty

	wakes, turns atomic.Uint64
}

// New makes a Progress. Unless it is manual, Run is to be called.
func New(src Source, opt Options) *Progress {
	p := &Progress{src: src, opt: opt}
	if opt.Manual {
		p.manual = make(chan struct{}, 1)
		return p
	}
	p.left = make(chan struct{})
	p.promote, p.eviction, p.handover = make(chan struct{}, 1), make(chan ends, 1), make(chan struct{}, 1)
	p.timer = time.AfterFunc(time.Hour, p.look)
	p.timer.Stop()
	return p
}

// Wakes is how often a goroutine slept while it waited.
func (p *Progress) Wakes() uint64 { return p.wakes.Load() }

// Turns is how often a goroutine polled while it waited.
func (p *Progress) Turns() uint64 { return p.turns.Load() }

func (p *Progress) String() string { return p.load().String() }

// Stop ends all polling. Afterwards the source is not used, but by Run, which has to end before. Nobody waits any more.
func (p *Progress) Stop() {
	if p.manual != nil {
		p.manual <- struct{}{}
		return
	}
	p.timer.Stop()
	for {
		s := p.load()
		if !p.swap(s, s.close()) {
			continue
		}
		if s.has(taken) {
			<-p.left
		}
		return
	}
}

// Sleep makes the caller one that depends on others: until it calls Wake, completions are handled at once.
func (p *Progress) Sleep() {
	for {
		s := p.load()
		n, took := s.sleep()
		if !p.swap(s, n) {
			continue
		}
		if took {
			p.cover(passAfter, false)
		}
		return
	}
}

// Wake ends Sleep.
func (p *Progress) Wake() { p.state.Add(^uint32(sleeperBit - 1)) }

// Wait waits for ch.
func (p *Progress) Wait(b turn.Bound, ch <-chan struct{}) error {
	switch {
	case b.Now:
		return turn.ErrWouldWait
	case p.manual != nil:
		return p.pollUntil(b, func() bool {
			select {
			case <-ch:
				return true
			default:
				return false
			}
		})
	}
	p.Sleep()
	defer p.Wake()
	p.wakes.Add(1)
	return b.Wait(ch)
}

// WaitSignal waits for a signal, and takes it. patience, which may be nil, decides whether the caller polls meanwhile.
func (p *Progress) WaitSignal(b turn.Bound, s *Signal, patience *Patience) error {
	switch {
	case s.Take():
		return nil
	case b.Now:
		return turn.ErrWouldWait
	case p.manual != nil:
		return p.pollUntil(b, s.Take)
	}
	if patience != nil && p.opt.Spin > 0 && patience.spins() && p.take() {
		done, err := p.spin(b, s)
		patience.learn(done)
		if done || err != nil {
			return err
		}
	}
	if p.lead(b, s) {
		return nil
	}
	p.Sleep()
	p.wakes.Add(1)
	err := s.wait(b)
	p.Wake()
	return err
}

// Run is the poller. It handles the source's completions, except for those that goroutines take while they wait, until
// ctx ends or the source fails.
func (p *Progress) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, p.src.Interrupt)()
	for read := true; ctx.Err() == nil && !p.load().has(closed); {
		if p.notice(read) {
			p.cover(0, false)
		}
		if p.load().reader() == evicted {
			p.standBy(ctx, p.handOver())
			read = true // a goroutine that read before may have left an event
			continue
		}
		seen := p.src.Events()
		if err := p.src.ReadEvents(); err != nil {
			if ctx.Err() == nil {
				p.fail(err, false)
			}
			break
		}
		read = p.src.Events() != seen
	}
	p.change(state.close)
	if p.load().reader() == evicted {
		p.handOver()
	}
}
