package measure

import (
	"math"
	"testing"
)

func TestSpacing(t *testing.T) {
	const mask = 1<<40 - 1
	s := NewSpacing(2, mask)
	for _, stamp := range []uint64{mask - 9, mask - 4, 5, 4, 105, 105} { // over the end of the clock, and one behind
		s.Add(stamp | 1<<50)
	}
	got := SpacingOf([]*Spacing{s, nil, NewSpacing(2, mask)})
	// 5, 10, 100 and 0 ticks of 2 ns
	if got.Count != 4 || got.Behind != 1 || got.Min != 0 || got.Max != 200 || math.Abs(got.Mean-57.5) > 1e-9 {
		t.Errorf("%+v", got)
	}
	stamp := uint64(0)
	if n := testing.AllocsPerRun(100, func() { stamp += 7; s.Add(stamp) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if SpacingOf([]*Spacing{nil}) != nil {
		t.Error("there is one of no queue")
	}
}
