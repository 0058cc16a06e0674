package engine

import (
	"errors"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
)

// intervals measures the parts of a run while it goes on, until the function that it returns.
func (r *run) intervals(size uint64) (stop func() []measure.Interval) {
	if r.plan.Interval == 0 {
		return func() []measure.Interval { return nil }
	}
	r.restart()
	var parts []measure.Interval
	var last uint64
	var begun time.Time
	look := func(now time.Time) {
		n := r.moved()
		if n == 0 {
			begun = now // the peer has not come yet
			return
		}
		i := measure.NewInterval(size, n-last, now.Sub(begun).Seconds())
		last, begun = n, now
		parts = append(parts, i)
		if r.hooks.Interval != nil {
			r.hooks.Interval(size, i)
		}
	}
	begun = time.Now()
	quit := every(r.plan.Interval, func() { look(time.Now()) })
	return func() []measure.Interval {
		quit()
		return parts
	}
}

// errOver is how an endless run ends without having failed.
var errOver = errors.New("an endless run is over")

// over reports whether err is the end of an endless run: it was interrupted.
func (r *run) over(err error) bool { return err != nil && r.plan.Infinite && r.asked.Err() != nil }
