package measure

import (
	"cmp"
	"math"
	"slices"

	"golang.org/x/sys/cpu"
)

// Stamps records the times of a stream of messages: when each group was posted and when completions reported that a
// number of messages was done. The slices have their room beforehand, so that recording does not allocate; entries that
// do not fit are dropped.
type Stamps struct {
	_      cpu.CacheLinePad // each loop has its own
	step   int              // messages per posted stamp
	posted []int64
	done   []doneStamp
	_      cpu.CacheLinePad
}

type doneStamp struct {
	count int64 // messages completed so far
	at    int64 // ticks
}

// NewStamps makes room for the given numbers of posts and completions. Every
// post is of step messages.
func NewStamps(posts, completions, step int) *Stamps {
	const pad = 8 // elements, which are no other loop's cache line
	posted, done := make([]int64, posts+2*pad), make([]doneStamp, completions+2*pad)
	for i := range posted { // all memory is there now, and does not come page by page in the middle of a run
		posted[i] = 1
	}
	for i := range done {
		done[i].at = 1
	}
	return &Stamps{step: step, posted: posted[pad : pad : pad+posts], done: done[pad : pad : pad+completions]}
}

// Post records that the next step messages are being posted.
func (s *Stamps) Post(at int64) {
	if len(s.posted) < cap(s.posted) {
		s.posted = append(s.posted, at)
	}
}

// Done records that count messages in all have completed.
func (s *Stamps) Done(count, at int64) {
	if len(s.done) < cap(s.done) {
		s.done = append(s.done, doneStamp{count, at})
	}
}

// MergeStamps returns the stamps of several streams as those of one.
func MergeStamps(streams []*Stamps) *Stamps {
	all := &Stamps{}
	type step struct{ at, more int64 }
	var steps []step
	for _, s := range streams {
		all.step = s.step
		all.posted = append(all.posted, s.posted...)
		last := int64(0)
		for _, d := range s.done {
			steps = append(steps, step{d.at, d.count - last})
			last = d.count
		}
	}
	slices.Sort(all.posted)
	slices.SortFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	sum := int64(0)
	for _, s := range steps {
		sum += s.more
		all.done = append(all.done, doneStamp{sum, s.at})
	}
	return all
}

// PeakTicks returns the smallest number of ticks per message over all spans
// from the posting of a message to the completion of that or of a later one:
// perftest's definition of the peak. It is zero if there is no peak.
//
// Perftest tries all pairs. Here the ratio is minimised by Dinkelbach's
// method: for a guess g, the pair that minimises ticks - g*messages gives the
// next guess. Each pass is linear, and a few passes suffice.
func (s *Stamps) PeakTicks() float64 {
	if len(s.posted) == 0 || len(s.done) == 0 {
		return 0
	}
	last := s.done[len(s.done)-1]
	g := float64(last.at-s.posted[0]) / float64(last.count)
	for range 64 {
		bestVal, bestRatio := math.Inf(1), g
		// The best post so far for any completion at or after it.
		from, fromVal := -1, math.Inf(-1)
		next := 0
		for _, d := range s.done {
			for next < len(s.posted) && int64(next*s.step) < d.count {
				if v := float64(s.posted[next]) - g*float64(next*s.step); v > fromVal {
					from, fromVal = next, v
				}
				next++
			}
			if from < 0 {
				continue
			}
			if v := float64(d.at) - g*float64(d.count) - fromVal; v < bestVal {
				bestVal = v
				bestRatio = float64(d.at-s.posted[from]) / float64(d.count-int64(from*s.step))
			}
		}
		if !(bestRatio < g) {
			break
		}
		g = bestRatio
	}
	return g
}
