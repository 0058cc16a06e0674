package measure

import "slices"

// Spacing is the distribution of the times between the completions of a queue, by the adapter's clock: the time that
// the processor takes to look is not in it.
type Spacing struct {
	dist   *Latency
	tick   float64 // nanoseconds
	mask   uint64  // of the bits that count
	last   uint64
	begun  bool
	behind uint64
}

// NewSpacing returns an empty distribution. A tick has so many nanoseconds, and the clock the bits of mask.
func NewSpacing(tick float64, mask uint64) *Spacing {
	return &Spacing{dist: NewLatency(), tick: tick, mask: mask}
}

// Add adds a completion, of that timestamp. It does not allocate.
func (s *Spacing) Add(stamp uint64) {
	now := stamp & s.mask
	since := (now - s.last) & s.mask
	switch {
	case !s.begun:
		s.begun = true
	case since > s.mask/2:
		s.behind++
		return
	default:
		s.dist.Record(float64(since) * s.tick)
	}
	s.last = now
}

// SpacingSummary is a Spacing in figures.
type SpacingSummary struct {
	Summary
	Behind uint64 // completions that are older than the one before, as those of several queue pairs may be
}

// SpacingOf returns the figures of several queues, nil of none. A nil one is of no queue.
func SpacingOf(list []*Spacing) *SpacingSummary {
	if list = slices.DeleteFunc(list, func(s *Spacing) bool { return s == nil }); len(list) == 0 {
		return nil
	}
	all, behind := NewLatency(), uint64(0)
	for _, s := range list {
		all.Merge(s.dist)
		behind += s.behind
	}
	return &SpacingSummary{all.Summary(), behind}
}
