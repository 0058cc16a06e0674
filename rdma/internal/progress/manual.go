package progress

import (
	"context"
	"runtime"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// A manual Progress has no poller: the program calls Poll and PollWait, and goroutines that wait poll. PollWait
// sleeps while it has the turn.

// pause is how often a manual Progress looks for completions while a goroutine waits.
const pause = 100 * time.Microsecond

// Poll polls once and returns the number of completions, or 0 while another goroutine polls.
// Preconditions: Options.Manual.
func (p *Progress) Poll() (int, error) {
	if !p.manual.TryEnter() {
		return 0, nil
	}
	defer p.manual.Leave()
	n, err := p.src.Poll()
	return n, p.polled(err)
}

// PollWait is Poll, and waits for a completion, and before for its turn, until ctx ends.
// Preconditions: Options.Manual.
func (p *Progress) PollWait(ctx context.Context) (int, error) {
	if err := p.manual.Enter(turn.Bound{Ctx: ctx}); err != nil {
		return 0, err
	}
	defer p.manual.Leave()
	n, err := p.src.Wait(ctx)
	if ctx.Err() != nil && n == 0 {
		return 0, ctx.Err()
	}
	return n, p.polled(err)
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
