package engine

import (
	"errors"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/loop"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// intervals are the parts of a run.
type intervals struct {
	run  *run
	size uint64
	list measure.Parts
	told []measure.Interval
	quit func()
}

// watchIntervals measures the parts of a run while it goes on, if they were asked for.
func (r *run) watchIntervals(size uint64) *intervals {
	w := &intervals{run: r, size: size, quit: func() {}}
	p := &r.plan
	if p.Load.Interval == 0 {
		return w
	}
	r.restart()
	w.list = measure.Parts{Size: size, PerTick: r.perTick(), Both: p.Load.Bidirectional, Counted: p.Receives(),
		Near: r.clk.Ticks(p.Load.Interval / 10)}
	if p.Load.Duration > 0 && p.Load.Margin > 0 {
		w.list.Margin = [2]int64{r.clk.Ticks(p.Load.Margin), r.clk.Ticks(p.Load.Duration - p.Load.Margin)}
	}
	w.quit = tick.Every(p.Load.Interval, w.look)
	return w
}

// look shows the interval since the last look. The last look of a run may come right after another: then there is
// nothing to show.
func (w *intervals) look() {
	begun := w.run.begun()
	if begun == 0 {
		return // the peer has not come yet
	}
	if !w.list.Begun() {
		w.list.Add(measure.Look{At: begun})
	}
	i := w.list.Add(measure.Look{At: w.run.clk.Now(), Count: w.run.moved()})
	if i.Seconds >= min(w.run.plan.Load.Interval.Seconds()/10, 0.05) {
		w.tell(i)
	}
}

func (w *intervals) tell(i measure.Interval) {
	w.told = append(w.told, i)
	if w.run.hooks.Interval != nil {
		w.run.hooks.Interval(w.size, i)
	}
}

// end returns all intervals of a run that is over, and shows the last one. A run that has failed may have no
// sample, and has those that were shown.
func (w *intervals) end(loops []*loop.Bandwidth, failed bool) []measure.Interval {
	w.quit()
	w.list.PerTick = w.run.perTick()
	switch {
	case w.run.plan.Load.Interval == 0 || w.run.begun() == 0:
		return nil
	case failed:
		return w.told
	case w.run.plan.Load.Duration > 0:
		w.look()
	}
	from, to := ends(loops)
	if !w.list.Begun() {
		w.list.Add(from)
	}
	all := w.list.Between(from, to)
	if w.run.plan.Load.Duration == 0 && len(all) > len(w.told) {
		w.tell(all[len(all)-1])
	}
	return all
}

// ends returns when what counts of several loops began and ended, and what they had moved until then.
func ends(loops []*loop.Bandwidth) (from, to measure.Look) {
	from, to = loops[0].Ends()
	for _, l := range loops[1:] {
		a, b := l.Ends()
		from.Count, to.Count = from.Count.Plus(a.Count), to.Count.Plus(b.Count)
		from.At, to.At = min(from.At, a.At), max(to.At, b.At)
	}
	return from, to
}

// over reports whether err is the end of an endless run: one of both ends was interrupted. A peer without heartbeats
// leaves without a reason.
func (r *run) over(err error) bool {
	if err == nil || !r.plan.Load.Infinite {
		return false
	}
	return r.asked.Err() != nil || errors.Is(err, wire.ErrInterrupted) ||
		errors.Is(err, wire.ErrClosed) && !r.Terms().Beats
}
