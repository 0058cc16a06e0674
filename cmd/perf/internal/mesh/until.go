package mesh

import (
	"math"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
)

// mostRounds bounds how many rounds --until adds.
const mostRounds = 1000

// until measures more rounds until a loss of Until would show. It ends earlier if twice the rounds show no less: then
// the NICs themselves differ by more.
func (m *coordinator) until() {
	if m.Until == 0 {
		return
	}
	done := m.planned()
	before := math.Inf(1)
	for m.ctx.Err() == nil {
		excess := m.res.excess(m.Until, m.Outliers)
		if excess <= 1 || done >= mostRounds || excess > 0.97*before && !math.IsInf(excess, 0) ||
			math.IsInf(excess, 0) && done > 32 {
			return
		}
		before = excess
		// The spread of a median falls with the root of the number of values.
		extra := int(math.Ceil(float64(done) * max(0.25, min(1, excess*excess-1))))
		m.begin("more rounds", schedule.Further(len(m.present), m.Rounds, done, extra), true, m.pair, m.done)
		done += extra
	}
}

// excess returns by which factor the least loss that would show is above a limit, of the worst group.
func (r *Result) excess(limit float64, o Outliers) (worst float64) {
	for _, f := range figuresOfPair {
		s := r.sheet(f, o)
		for i := range s.groups {
			if g := &s.groups[i]; len(g.nics) >= fewest {
				worst = max(worst, g.shows/f.distance(limit))
			}
		}
	}
	return worst
}
