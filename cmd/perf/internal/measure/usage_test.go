package measure

import (
	"maps"
	"testing"
)

func TestGauge(t *testing.T) {
	now := map[string]uint64{"a": 5, "b": 7, "c": 1}
	g := NewGauge(func() map[string]uint64 { return maps.Clone(now) }, nil)
	now["a"], now["c"], now["new"] = 8, 0, 3
	for cpuTime() == g.cpu { // busy
	}
	u := g.Used()
	if want := map[string]uint64{"a": 3}; !maps.Equal(u.Counters, want) {
		t.Errorf("counters rose by %v, want %v", u.Counters, want)
	}
	g = NewGauge(func() map[string]uint64 { return maps.Clone(now) }, []string{"b", "c"})
	now["a"], now["c"] = 9, 4
	if u, want := g.Used(), (map[string]uint64{"b": 0, "c": 4}); !maps.Equal(u.Counters, want) {
		t.Errorf("named counters rose by %v, want %v", u.Counters, want)
	}
	if p := u.CPUPercent(); p <= 0 || u.Elapsed <= 0 {
		t.Errorf("a busy loop took %v of %v, %v %%", u.CPU, u.Elapsed, p)
	}
	if u := NewGauge(nil, nil).Used(); u.Counters != nil {
		t.Errorf("counters %v that nobody asked for", u.Counters)
	}
}
