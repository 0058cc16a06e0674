package measure

import (
	"maps"
	"slices"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/counter"
)

// Usage is the cost of a test for this end.
type Usage struct {
	Elapsed  time.Duration
	CPU      time.Duration     // of all threads; 0: not known
	Counters map[string]uint64 // by how much the port's counters rose, those that did or were named; nil: not asked for
	Reset    []string          // counters that fell, so that it is not known by how much they rose
}

// AddCounters adds those of another device.
func (u *Usage) AddCounters(other *Usage) {
	u.Reset = append(u.Reset, other.Reset...)
	more := other.Counters
	if more == nil {
		return
	}
	if u.Counters == nil {
		u.Counters = map[string]uint64{}
	}
	for name, v := range more {
		u.Counters[name] += v
	}
}

// CPUPercent returns the share of one processor, 0 if it is not known.
func (u *Usage) CPUPercent() float64 {
	if u.Elapsed <= 0 {
		return 0
	}
	return 100 * u.CPU.Seconds() / u.Elapsed.Seconds()
}

// Gauge has the counters and times from before a test.
type Gauge struct {
	read     func() map[string]uint64
	names    []string
	began    time.Time
	cpu      time.Duration
	counters map[string]uint64
}

// NewGauge reads the processor times, and the counters if there is a function that reads them: at those of some names,
// or at all.
func NewGauge(read func() map[string]uint64, names []string) *Gauge {
	g := &Gauge{read: read, names: names, began: time.Now(), cpu: CPUTime()}
	if read != nil {
		g.counters = read()
	}
	return g
}

// Lap returns what the test has cost since NewGauge, or since the last Lap.
func (g *Gauge) Lap() Usage {
	began, cpu := time.Now(), CPUTime()
	u := Usage{Elapsed: began.Sub(g.began), CPU: cpu - g.cpu}
	g.began, g.cpu = began, cpu
	if g.read == nil {
		return u
	}
	u.Counters = map[string]uint64{}
	now := g.read()
	for name, v := range now {
		was, ok := g.counters[name]
		named := slices.Contains(g.names, name)
		switch {
		case !ok || g.names != nil && !named:
		case v < was:
			u.Reset = append(u.Reset, name)
		case v > was || named:
			u.Counters[name] = v - was
		}
	}
	slices.Sort(u.Reset)
	g.counters = now
	return u
}

// Notes returns a line for each counter that shows a problem or was reset.
func (u *Usage) Notes() []string {
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(u.Counters)) {
		if note, _, known := counter.Note(name, u.Counters[name]); known && u.Counters[name] > 0 {
			notes = append(notes, note)
		}
	}
	for _, name := range u.Reset {
		notes = append(notes, name+" was reset during the test: by how much it rose is not known")
	}
	return notes
}
