package engine

import (
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/loop"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
)

// spacing takes the times between the completions of a loop. Directions without completions at this end have none.
type spacing struct{ sends, recvs *measure.Spacing }

// of has a loop take them, if they were asked for.
func (s *spacing) of(r *run, l *loop.Bandwidth) {
	if !r.plan.Report.HWTimestamps {
		return
	}
	tick, mask := r.Clock()
	stamped := func(c loop.Completions, s **measure.Spacing) loop.Completions {
		if c == nil {
			return nil
		}
		*s = measure.NewSpacing(tick, mask)
		return loop.Stamped{Completions: c, Spacing: *s}
	}
	l.Sends, l.Recvs = stamped(l.Sends, &s.sends), stamped(l.Recvs, &s.recvs)
}

// summary returns the figures of all loops.
func summary(times []spacing) (sends, recvs *measure.SpacingSummary) {
	return measure.SpacingOf(lists.Map(times, func(t spacing) *measure.Spacing { return t.sends })),
		measure.SpacingOf(lists.Map(times, func(t spacing) *measure.Spacing { return t.recvs }))
}
