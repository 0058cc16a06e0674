package progress

import (
	"context"
	"runtime"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// A manual Progress has no poller: the program calls Poll and PollWait, and goroutines that wait poll. PollWait
// has its turn also while it sleeps.

// pause is how often a manual Progress looks for completions while a goroutine waits.
const pause = 100 * time.Microsecond

// Poll polls once and returns the number of completions, or 0 while another goroutine is in Poll or PollWait. After
// Stop it returns ErrStopped.
// Preconditions: Options.Manual.
func (p *Progress) Poll() (int, error) {
	if !p.manual.TryEnter() {
		return 0, nil
	}
	defer p.manual.Leave()
	return p.pollOnce()
}

// PollWait is Poll, and waits for a completion, and before for its turn, until ctx ends.
// Preconditions: Options.Manual.
func (p *Progress) PollWait(ctx context.Context) (int, error) {
	if err := p.manual.Enter(turn.Bound{Ctx: ctx}); err != nil {
		return 0, err
	}
	defer p.manual.Leave()
	for {
		if n, err := p.pollOnce(); n > 0 || err != nil {
			return n, err
		}
		seen := p.src.Events()
		if err := p.src.Arm(); err != nil {
			return 0, p.polled(err)
		}
		if n, err := p.pollOnce(); n > 0 || err != nil { // an event is only for what comes after the arming
			return n, err
		}
		switch err := p.src.WaitEvent(ctx, p.open, seen); {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil && p.open.Err() == nil:
			return 0, p.polled(err)
		}
	}
}

// pollOnce polls.
// Preconditions: Options.Manual.
func (p *Progress) pollOnce() (n int, err error) {
	err = p.alone(func() (err error) { n, err = p.src.Poll(); return err })
	return n, err
}

// alone calls f, which polls. No other goroutine polls meanwhile, though one may be asleep in
// PollWait.
// Preconditions: Options.Manual.
func (p *Progress) alone(f func() error) error {
	p.polling.Take()
	defer p.polling.Leave()
	if p.load().has(closed) {
		return ErrStopped
	}
	return p.polled(f())
}

func (p *Progress) polled(err error) error {
	if err != nil {
		p.failed.Do(func() { p.opt.Fail(err) })
	}
	return err
}

// pollUntil waits until done returns true. If no other goroutine polls, it does.
// Preconditions: Options.Manual.
func (p *Progress) pollUntil(b turn.Bound, done func() bool) error {
	last := time.Now()
	for !done() {
		if err := b.Expired(); err != nil {
			return err
		}
		n, err := p.Poll()
		switch {
		case n > 0:
			last = time.Now()
		case err != nil || p.opt.Spin < 0 || time.Since(last) > p.opt.Spin:
			time.Sleep(pause)
		default:
			runtime.Gosched()
		}
	}
	return nil
}
