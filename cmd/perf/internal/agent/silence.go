package agent

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// often is how many heartbeats an agent sends in the time of one of the coordinator's: so that a host that stood still
// for less than the time after which it counts as lost can be told from one that did not.
const often = 4

// Pace returns the time between the heartbeats of an agent.
func Pace(beat time.Duration) time.Duration { return beat / often }

// Silence is a time in which nothing came from the other end.
type Silence struct{ From, To time.Time }

// Time returns its length.
func (s Silence) Time() time.Duration { return s.To.Sub(s.From) }

// mostSilences bounds what is kept of one agent: the longest.
const mostSilences = 16

// ear keeps the silences of an end that are longer than bound.
type ear struct {
	mu    sync.Mutex
	bound time.Duration // 0: none is kept
	last  time.Time     // when something came
	kept  []Silence
}

// hear notes that something came.
func (e *ear) hear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	e.kept, e.last = e.upTo(now), now
	if len(e.kept) > mostSilences {
		shortest := slices.MinFunc(e.kept, func(a, b Silence) int { return cmp.Compare(a.Time(), b.Time()) })
		e.kept = slices.DeleteFunc(e.kept, func(s Silence) bool { return s == shortest })
	}
}

// upTo returns what was kept, and the silence that ends now.
// Preconditions: e.mu is held.
func (e *ear) upTo(now time.Time) []Silence {
	if s := (Silence{e.last, now}); e.bound > 0 && !e.last.IsZero() && s.Time() > e.bound {
		return append(slices.Clip(e.kept), s)
	}
	return e.kept
}

// silences returns what was kept, and the silence that has not ended yet.
func (e *ear) silences() []Silence {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.upTo(time.Now()))
}

// Silences returns the times in which nothing came from an agent for longer than Hears, though it has to send
// heartbeats: the longest ones, in turn.
func (r *Remote) Silences() []Silence { return r.link.ear.silences() }
