package ending

import (
	"sync"
	"time"
)

// Allowance bounds the time that all calls of Close take together whose peers take nothing. What one has waited in vain
// the next ones cannot wait. When it is used up, a call has some patience left: a few times what calls needed lately
// whose peers took everything, less after each that waited in vain. It grows again while no call waits. A call whose
// peer takes something, or has done so less than its linger ago, does not depend on it. It has its own lock; the zero
// value is full.
type Allowance struct {
	mu      sync.Mutex
	used    float64       // in lingers
	spent   time.Duration // of the patience
	waiting int
	since   time.Time // no call waits
}

const (
	patienceMost  = 500 * time.Millisecond / patiencePart
	patiencePart  = 16 // a call in vain takes so much of it, so all of them have patiencePart times as much
	patienceTimes = 4  // what calls needed lately whose peers took everything
	growth        = 4  // a second comes back in so many
)

// patience is how long a call may wait at most when the time is used up.
func patience(linger time.Duration) time.Duration { return min(linger/10/patiencePart, patienceMost) }

// Wait is the wait of one call of Close. It is at most as long as its linger.
type Wait struct {
	a      *Allowance
	linger time.Duration
	began  time.Time
	taken  uint64 // what the peer had taken when it began
}

// Begin begins a wait, and returns for how long it may last at first. taken is a number that changes when the peer
// takes something, and ago how long ago that was. End follows.
func (a *Allowance) Begin(linger, ago time.Duration, taken uint64) (Wait, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == 0 && a.used > 0 {
		idle := time.Since(a.since)
		a.used = max(a.used-float64(idle)/float64(growth*linger), 0)
		a.spent = max(a.spent-idle/(growth*patiencePart), 0)
	}
	a.waiting++
	return Wait{a: a, linger: linger, began: time.Now(), taken: taken},
		max(linger-time.Duration(a.used*float64(linger)), patience(linger)-a.spent, linger-max(ago, 0))
}

// More is called when that time is over. It returns for how much longer the wait may last: the whole linger, if the
// peer has taken something since the wait began.
func (w *Wait) More(taken uint64) time.Duration {
	if taken == w.taken {
		return 0
	}
	return w.linger - time.Since(w.began)
}

// Whole reports whether the wait has lasted as long as its linger.
func (w *Wait) Whole() bool { return time.Since(w.began) >= w.linger }

// End ends the wait. settled reports whether the end of the connection was settled meanwhile.
func (w *Wait) End(taken uint64, settled bool) {
	a, waited := w.a, time.Since(w.began)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting--; a.waiting == 0 {
		a.since = time.Now()
	}
	most := patience(w.linger)
	switch {
	case settled:
		a.spent = min(a.spent, max(most-patienceTimes*waited, 0))
	case taken == w.taken: // in vain
		if a.used += float64(waited) / float64(w.linger); a.used >= 1 {
			a.used = 1
			a.spent += max(most-a.spent, 0) / patiencePart
		}
	}
}
