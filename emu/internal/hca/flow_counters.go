//go:build linux

package hca

import (
	"slices"

	"golang.org/x/sys/unix"
)

// CounterPoint is what a place in the answer counts: packets or bytes.
type CounterPoint struct{ Description, Index uint32 }

// What a point counts. C: enum ib_counters_description.
const (
	CountPackets = 0
	CountBytes   = 1

	maxCounterIndex = 32 // C: MAX_COUNTERS_NUM
)

// FlowCounters counts what rules match.
type FlowCounters struct {
	Held
	FrameCounter
	points []CounterPoint
}

// CreateCounters makes counters that nothing is bound to.
func CreateCounters(c *Context) (*FlowCounters, unix.Errno) {
	return added(c, &FlowCounters{Held: c.held(rankOfRule, "counters object")})
}

// bind takes the points that the first rule brings.
func (o *FlowCounters) bind(points []CounterPoint) unix.Errno {
	switch {
	case len(points) == 0 && len(o.points) == 0, len(points) > 0 && len(o.points) > 0:
		return unix.EINVAL
	case len(points) == 0:
		return 0
	}
	for _, p := range points {
		if p.Description > CountBytes || p.Index >= maxCounterIndex {
			return unix.EINVAL
		}
	}
	o.points = slices.Clone(points)
	return 0
}

// Read adds up to n values, in the order that the points say.
func (o *FlowCounters) Read(n int) ([]uint64, unix.Errno) {
	v := make([]uint64, n)
	if len(o.points) == 0 {
		return nil, unix.EINVAL
	}
	for _, p := range o.points {
		if int(p.Index) >= n {
			return nil, unix.EINVAL
		}
		if p.Description == CountPackets {
			v[p.Index] += o.Packets
		} else {
			v[p.Index] += o.Bytes
		}
	}
	return v, 0
}

// FrameCounter is one counter of frames.
type FrameCounter struct{ Packets, Bytes uint64 }
