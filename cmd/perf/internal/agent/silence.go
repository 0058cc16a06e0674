package agent

import (
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
	if s := (Silence{e.last, now}); e.bound > 0 && !e.last.IsZero() && s.Time() > e.bound {
		e.kept = append(e.kept, s)
	}
	e.last = now
	if len(e.kept) > mostSilences {
		shortest := 0
		for i := range e.kept {
			if e.kept[i].Time() < e.kept[shortest].Time() {
				shortest = i
			}
		}
		e.kept = slices.Delete(e.kept, shortest, shortest+1)
	}
}

// silences returns what was kept, and the silence that has not ended yet.
func (e *ear) silences() []Silence {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := slices.Clone(e.kept)
	if s := (Silence{e.last, time.Now()}); e.bound > 0 && !e.last.IsZero() && s.Time() > e.bound {
		list = append(list, s)
	}
	return list
}

// Silences returns the times in which nothing came from an agent for longer than Hears, though it has to send
// heartbeats: the longest ones, in turn.
func (r *Remote) Silences() []Silence { return r.link.ear.silences() }
