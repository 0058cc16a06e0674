package layer

import (
	"cmp"
	"slices"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/measure"
)

// Run is the outcome of one run: a carrier, a size, a round.
type Run struct {
	Carrier  Carrier `json:"over"`
	Bytes    int     `json:"bytes"`
	Conns    int     `json:"connections"`
	Messages int     `json:"messages"` // of all connections
	Round    int     `json:"round"`

	Seconds float64 `json:"seconds,omitempty"`
	Bits    float64 `json:"bandwidth_bits_per_second,omitempty"`
	Rate    float64 `json:"messages_per_second,omitempty"`

	Client       *Usage           `json:"client,omitempty"`
	Server       *Usage           `json:"server,omitempty"`
	ClientMemory *Memory          `json:"client_memory,omitempty"`
	ServerMemory *Memory          `json:"server_memory,omitempty"`
	Lat          *measure.Summary `json:"latency,omitempty"`
}

// over fills in what follows from the time that a run took.
func (r Run) over(seconds float64) Run {
	if seconds > 0 {
		r.Seconds = seconds
		r.Rate = float64(r.Messages) / seconds
		r.Bits = r.Rate * float64(r.Bytes) * 8
	}
	return r
}

// CPU returns the processor time of an end for a message, in nanoseconds, or 0 if it is not known.
func (r *Run) CPU(u *Usage) float64 {
	if u == nil || r.Messages == 0 {
		return 0
	}
	return u.CPU * 1e9 / float64(r.Messages)
}

// Result is the outcome of a test. Runs holds what was measured until the end, or until the error.
type Result struct {
	Started   time.Time
	Elapsed   time.Duration
	Peer      string // its address
	Transport string // of the connections, as package rdma names it
	Runs      []Run
}

// Line is the median of the rounds of a carrier and a size.
type Line struct {
	Run
	Rounds int
}

// Lines returns the medians, in the order in which the runs began.
func (r *Result) Lines() []Line {
	type key struct {
		c Carrier
		n int
	}
	all := lists.Groups(r.Runs, func(run Run) key { return key{run.Carrier, run.Bytes} })
	return lists.Map(all, func(rounds []Run) Line { return Line{median(rounds), len(rounds)} })
}

// median returns the run in the middle: by processor time of this end, or by latency.
func median(runs []Run) Run {
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b Run) int {
		switch {
		case a.Lat != nil && b.Lat != nil:
			return cmp.Compare(a.Lat.P50, b.Lat.P50)
		case a.Client == nil || b.Client == nil:
			return 0
		}
		return cmp.Compare(a.Client.CPU, b.Client.CPU)
	})
	return runs[len(runs)/2]
}
