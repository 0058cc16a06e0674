package engine

import (
	"github.com/pureverbs/pureverbs/cmd/perf/internal/loop"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
)

// ports returns what each port of the device moved in the sample.
func (r *run) ports(size uint64, loops []*loop.Bandwidth) []measure.Bandwidth {
	var messages [2]uint64
	from, to := int64(0), int64(0)
	for i, l := range loops {
		a, b := l.Ends()
		from, to = a.At, b.At // the threads share a window
		for k, n := range l.Counted() {
			messages[r.plan.IBPortOf(r.threads[i].first+k)-1] += n
		}
	}
	var list []measure.Bandwidth
	for _, n := range messages {
		s := measure.Moved(size, measure.FlowOf(n, from, to), r.perTick(), 0)
		list = append(list, *s.BW)
	}
	return list
}
