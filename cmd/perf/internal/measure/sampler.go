package measure

import (
	"time"

	"golang.org/x/sys/cpu"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tsc"
)

// Sampler is a run by time: a margin, the sample, a margin.
type Sampler struct {
	_                  cpu.CacheLinePad // each loop has its own
	window             *Window          // nil: it is alone
	count              Counter          // so far, for the others of the window
	margin, length     int64            // ticks
	from, to, last     int64
	begun, ended       int64
	countFrom, countTo Count
	Mark               func(at int) // if there is one, called when the sample begins (0), and when it ends (1)
	_                  cpu.CacheLinePad
}

// NewSampler returns a run that lasts for duration, including a margin at both ends that does not count.
func NewSampler(clk *tsc.Clock, duration, margin time.Duration) *Sampler {
	return &Sampler{margin: clk.Ticks(margin), length: clk.Ticks(duration)}
}

// Start begins the run.
func (s *Sampler) Start(now int64) {
	if s.window != nil {
		s.window.start(s, now)
		return
	}
	s.from = now + s.margin
	s.to = now + s.length - s.margin
	s.last = now + s.length
	s.begun, s.ended = 0, 0
}

// Started reports whether the run has begun.
func (s *Sampler) Started() bool { return s.from != 0 }

// Ahead reports whether the sample is still to begin.
func (s *Sampler) Ahead() bool { return s.begun == 0 }

// Sampling reports whether the run is inside the sample.
func (s *Sampler) Sampling() bool { return s.begun != 0 && s.ended == 0 }

// Tick takes the time and the count so far, and reports whether the run is over. A run whose processor was taken away
// when the sample should have begun goes on for longer: a sample has its length, or it would be a figure of nothing.
func (s *Sampler) Tick(now int64, count Count) bool {
	if s.window != nil {
		s.count.Store(count)
	}
	switch {
	case s.from == 0 || now < s.from:
		return false
	case s.begun == 0 && s.window != nil:
		s.window.begin(s, now)
		s.mark(0)
	case s.begun == 0:
		s.mark(0)
		s.begun, s.countFrom = now, count
		late := now - s.from
		s.to += late
		s.last += late
	case now >= s.to && s.ended == 0 && s.window != nil:
		s.window.end(s, now)
		s.mark(1)
	case now >= s.to && s.ended == 0:
		s.mark(1)
		s.ended, s.countTo = now, count
	}
	return now >= s.last && s.ended != 0
}

func (s *Sampler) mark(at int) {
	if s.Mark != nil {
		s.Mark(at)
	}
}

// Silent reports whether what moved last at some time was still for the second half of the sample.
func (s *Sampler) Silent(moved int64) bool { return moved < s.begun+(s.ended-s.begun)/2 }

// Cut lets the sample end with what moved last, if the peer came to its end, at over, before it did: this end was held
// up, and began late. It reports whether that leaves a sample.
func (s *Sampler) Cut(over, moved int64, count Count) bool {
	if s.ended == 0 || over < s.ended {
		s.mark(1)
	}
	if s.window != nil {
		return s.window.cut(s, over, moved, count)
	}
	if s.begun != 0 && (s.ended == 0 || over < s.ended) {
		s.ended, s.countTo = moved, count
	}
	return s.begun != 0 && s.ended > s.begun
}

// Whole makes all of a run that failed before its sample began the sample.
func (s *Sampler) Whole(from, to int64, count Count) {
	s.window = nil
	s.begun, s.ended, s.countFrom, s.countTo = from, to, Count{}, count
}

// Ends returns when the sample began and ended, and the counts at these moments.
func (s *Sampler) Ends() (from, to Look) {
	_, begun, ended := s.Sample()
	return Look{begun, s.countFrom}, Look{ended, s.countTo}
}

// Sample returns the messages of the sample, and the ticks at which it began and ended.
func (s *Sampler) Sample() (messages Count, from, to int64) {
	if s.window != nil {
		return s.countTo.Minus(s.countFrom), s.window.begun, s.window.ended
	}
	return s.countTo.Minus(s.countFrom), s.begun, s.ended
}
