package mesh

import (
	"math"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
)

const (
	mostRounds = 1000 // that --until reaches
	blindUntil = 32   // rounds after which a mesh that shows nothing at all ends
)

// until measures more rounds until a loss of Until would show. It ends earlier if three times the rounds have shown
// hardly more: then the NICs themselves differ by that.
func (m *coordinator) until() {
	if m.Until == 0 {
		return
	}
	type step struct {
		rounds int
		excess float64
	}
	var before []step
	for done := m.planned(); m.ctx.Err() == nil && done < mostRounds; {
		excess := m.res.excess(m.Until, m.Outliers)
		if excess <= 1 || math.IsInf(excess, 0) && done >= blindUntil {
			return
		}
		for _, b := range before {
			if done >= 3*b.rounds && excess > 0.9*b.excess {
				return
			}
		}
		before = append(before, step{done, excess})
		// The spread of a median falls with the root of the number of values.
		extra := int(math.Ceil(float64(done) * max(0.25, min(1, excess*excess-1))))
		m.begin("more rounds", schedule.Further(len(m.present), done, extra), true, m.pair, m.done)
		done += extra
	}
}

// excess returns by which factor the least loss that would show is above a limit, of the worst group.
func (r *Result) excess(limit float64, o Outliers) (worst float64) {
	for _, f := range Figures {
		s := r.sheet(f, o)
		for _, g := range s.groups {
			if len(g.nics) >= fewest {
				worst = max(worst, g.shows/f.distance(limit))
			}
		}
	}
	return worst
}
