// Package progress decides who takes the completions of a CQ, reads its events, arms it and sleeps. It knows a source
// of completions and nothing about connections.
//
// One goroutine at a time polls: the one that has the turn. Normally this is the poller, which sleeps until the device
// raises an event. A goroutine that waits for the peer's reply polls instead while it waits. That saves it two wake-ups
// and the device an event. When that goroutine leaves, there are two cases. If another goroutine sleeps, the CQ is
// armed and somebody reads its events: it is covered. Otherwise the goroutine is away: it will be back soon, and a
// timer checks after Absence whether it came back.
//
// One goroutine at a time reads events: the poller, or a goroutine that waits again and again while no other goroutine
// waits. Such a goroutine also polls, so that an event wakes one goroutine. Otherwise an event wakes two, one after the
// other, and for each of them Go's scheduler wakes a thread that looks for more to do.
//
// All this is in one word (state.go), and each transition is a compare-and-swap.
package progress

import (
	"context"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// New makes a Progress. Unless it is manual, Run is to be called.
func New(src Source, opt Options) *Progress {
	p := &Progress{src: src, opt: opt}
	if opt.Manual {
		p.manual.Init(1)
		p.polling.Init(1)
		p.open, p.end = context.WithCancel(context.Background())
		return p
	}
	p.left = make(chan struct{})
	p.promote, p.eviction, p.handover = make(chan struct{}, 1), make(chan ends, 1), make(chan struct{}, 1)
	p.timer = time.AfterFunc(time.Hour, p.look)
	p.timer.Stop()
	return p
}

// Stop ends all polling. Afterwards the source is not used, but by Run, which has to end before. Nobody waits any more,
// unless in PollWait.
func (p *Progress) Stop() {
	if p.opt.Manual {
		p.change(state.close)
		p.end()
		p.manual.Take()
		p.polling.Take() // from CatchUp
		p.polling.Leave()
		p.manual.Leave()
		return
	}
	p.timer.Stop()
	if p.step(func(s state) (state, bool) { return s.close(), s.has(taken) }) {
		<-p.left
	}
}

// Sleep makes the caller one that depends on others: until it calls Wake, completions are handled at once.
func (p *Progress) Sleep() {
	if p.step(state.sleep) {
		p.cover(passAfter, false)
	}
}

// Wake ends Sleep, and what ask began.
func (p *Progress) Wake() { p.state.Add(^uint32(sleeperBit - 1)) }

// CatchUp handles what has come. It returns early if stop is closed.
func (p *Progress) CatchUp(stop <-chan struct{}) {
	if p.opt.Manual {
		_ = p.alone(p.pollAll) // Options.Fail has the error
		return
	}
	caught := p.ask()
	took := false
	for {
		s := p.load()
		var n state
		n, took = s.ask()
		if s.has(closed) {
			return
		}
		if p.swap(s, n) {
			break
		}
	}
	if took {
		p.cover(passAfter, false)
	} else {
		select {
		case <-caught:
		case <-stop:
		}
	}
	p.Wake()
}

// Meanwhile has completions handled at once until stop is called, for a caller that waits for something else: by the
// poller, or if it is manual by another goroutine.
func (p *Progress) Meanwhile() (stop func()) {
	if !p.opt.Manual {
		p.Sleep()
		return p.Wake
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(pause):
				_, _ = p.Poll() // Options.Fail has the error
			}
		}
	}()
	return func() { close(done) }
}

// Wait waits for ch.
func (p *Progress) Wait(b turn.Bound, ch <-chan struct{}) error {
	switch {
	case b.Now:
		return turn.ErrWouldWait
	case p.opt.Manual:
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
	p.Wakes.Add(1)
	return b.Wait(ch)
}

// WaitSignal waits for a signal, and takes it. patience, which may be nil, decides whether the caller polls meanwhile.
func (p *Progress) WaitSignal(b turn.Bound, s *Signal, patience *Patience) error {
	switch {
	case s.Take():
		return nil
	case b.Now:
		return turn.ErrWouldWait
	case p.opt.Manual:
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
	p.Wakes.Add(1)
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
