package ending

import (
	"sync"
	"time"
)

// Allowance bounds the time that all calls of Close take together whose peers take nothing. What one has waited in vain
// the next ones cannot wait, except for a part of a short reserve. It grows again while no call waits. It has its own
// lock; the zero value is full.
type Allowance struct {
	mu      sync.Mutex
	used    float64 // in lingers
	waiting int
	since   time.Time // no call waits
}

const (
	reserveMost = 500 * time.Millisecond // for calls that come when the time is used up
	reservePart = 8                      // of it one may have
	growth      = 4                      // a second comes back in so many
)

func reserve(linger time.Duration) time.Duration { return min(linger/10, reserveMost) }

// Begin returns how long a call may wait. End follows.
func (a *Allowance) Begin(linger time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == 0 && a.used > 0 {
		a.used = max(a.used-float64(time.Since(a.since))/float64(growth*linger), 0)
	}
	a.waiting++
	left := linger + reserve(linger) - time.Duration(a.used*float64(linger))
	return min(max(left-reserve(linger), left/reservePart, 0), linger)
}

// End ends a wait. vain reports whether the connection's data was not delivered meanwhile.
func (a *Allowance) End(linger, waited time.Duration, vain bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting--; a.waiting == 0 {
		a.since = time.Now()
	}
	if vain {
		a.used = min(a.used+float64(waited)/float64(linger), 1+float64(reserve(linger))/float64(linger))
	}
}
