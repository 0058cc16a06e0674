package progress

import (
	"runtime"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// spin polls until there is a signal, and reports whether it took that. It returns the turn.
// Preconditions: the turn.
func (p *Progress) spin(b turn.Bound, sig *Signal) (took bool, err error) {
	p.Turns.Add(1)
	took, err, broken := p.pollFor(b, sig)
	switch {
	case broken != nil:
		p.fail(broken, true)
	case !took || !p.rest(false):
		p.cover(passAfter, false)
	}
	return took, err
}

// pollFor polls until there is a signal, which it takes, until b ends, which is err, or for a while. broken is the
// error of the source.
// Preconditions: the turn.
func (p *Progress) pollFor(b turn.Bound, sig *Signal) (took bool, err, broken error) {
	start := time.Now()
	for {
		if err := p.serve(); err != nil {
			return false, nil, err
		}
		for range spinPolls {
			n, err := p.src.Poll()
			if err != nil {
				return false, nil, err
			}
			if n == 0 {
				continue
			}
			p.armed = false
			if sig.Take() {
				return true, nil, nil
			}
			runtime.Gosched() // it was for others
		}
		if sig.Take() {
			return true, nil, nil
		}
		if err := b.Expired(); err != nil {
			return false, err, nil
		}
		if time.Since(start) > p.opt.Spin {
			return false, nil, nil
		}
		if runtime.GOMAXPROCS(0) == 1 {
			runtime.Gosched() // no other place lets goroutines run
		} else {
			yield()
		}
	}
}

// spinPolls is after how many polls without a completion others may have the processor: more than any adapter takes.
const spinPolls = 256

// Patience decides whether a goroutine polls while it waits: as long as the reply usually arrives before it would give
// up. One goroutine at a time uses it. The zero value is ready.
type Patience struct {
	luck int // below 1: it seldom came
	idle int // waits without polling since the last try
}

const (
	luckMost  = 8
	trialEach = 16 // waits after which it polls once, whatever was before
)

func (p *Patience) spins() bool {
	if p.luck > 0 {
		return true
	}
	p.idle++
	return p.idle >= trialEach
}

func (p *Patience) learn(came bool) {
	p.idle = 0
	if came {
		p.luck = min(p.luck+1, luckMost)
	} else {
		p.luck = max(p.luck-2, 0)
	}
}
