package rdma

import (
	"context"
	"runtime"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// idle decides whether the poller spins when there is nothing to do.
//
// Spinning pays for a dialog, where either end waits for the other's next frame: going to sleep and waking up costs
// more than the wait. In a one-way stream it costs processor time and makes small batches of what comes.
type idle struct {
	most time.Duration // that it spins
	gap  time.Duration // running mean of how long nothing came, where more than 8 times most counts as that
	talk int           // up to talkMost: how much the last waits were those of a dialog

	sent, received uint64 // data frames, when the last wait began
}

const (
	talkMost  = 8
	spinPolls = 64 // between two looks at the clock
)

// arrivals waits for completions, and takes them.
func (e *Engine) arrivals(ctx context.Context, wcs []ibv.WC) (int, error) {
	if n, err := e.cq.Poll(wcs); n > 0 || err != nil {
		return n, err
	}
	start := time.Now()
	n, err := e.spin(wcs, start)
	if n == 0 && err == nil {
		n, err = e.cq.Wait(ctx, wcs)
	}
	e.idle.gap += (min(time.Since(start), 8*e.idle.most) - e.idle.gap) / 8
	return n, err
}

// spin polls for as long as that is likely to pay.
func (e *Engine) spin(wcs []ibv.WC, start time.Time) (int, error) {
	i := &e.idle
	sent, received := e.sent.Load(), e.received
	if sent != i.sent && received != i.received {
		i.talk = min(i.talk+1, talkMost)
	} else {
		i.talk = max(i.talk-1, 0)
	}
	i.sent, i.received = sent, received
	if i.talk < talkMost/2 || i.gap > i.most {
		runtime.Gosched() // while those that were woken work, more comes
		return e.cq.Poll(wcs)
	}
	for most := min(2*i.gap, i.most); ; {
		runtime.Gosched() // who was woken may be behind this goroutine
		for range spinPolls {
			if n, err := e.cq.Poll(wcs); n > 0 || err != nil {
				return n, err
			}
		}
		if time.Since(start) > most {
			return 0, nil
		}
	}
}
