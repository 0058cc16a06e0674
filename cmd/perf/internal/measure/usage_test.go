package measure

import (
	"maps"
	"testing"
)

func TestGauge(t *testing.T) {
	now := map[string]uint64{"a": 5, "b": 7, "c": 1}
	g := NewGauge(func() map[string]uint64 { return maps.Clone(now) })
	now["a"], now["c"], now["new"] = 8, 0, 3
	for cpuTime() == g.cpu { // busy
	}
	u := g.Used()
	if want := map[string]uint64{"a": 3}; !maps.Equal(u.Counters, want) {
		t.Errorf("counters rose by %v, want %v", u.Counters, want)
	}
	if p := u.CPUPercent(); p <= 0 || u.Elapsed <= 0 {
		t.Errorf("a busy loop took %v of %v, %v %%", u.CPU, u.Elapsed, p)
	}
	if u := NewGauge(nil).Used(); u.Counters != nil {
		t.Errorf("counters %v that nobody asked for", u.Counters)
	}
}
