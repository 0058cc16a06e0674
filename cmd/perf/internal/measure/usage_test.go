package measure

import (
	"maps"
	"strings"
	"testing"
)

func TestGauge(t *testing.T) {
	now := map[string]uint64{"a": 5, "b": 7, "c": 1}
	g := NewGauge(func() map[string]uint64 { return maps.Clone(now) }, nil)
	now["a"], now["c"], now["new"] = 8, 0, 3
	for CPUTime() == g.cpu { // busy
	}
	u := g.Lap()
	if want := map[string]uint64{"a": 3}; !maps.Equal(u.Counters, want) {
		t.Errorf("counters rose by %v, want %v", u.Counters, want)
	}
	g = NewGauge(func() map[string]uint64 { return maps.Clone(now) }, []string{"b", "c"})
	now["a"], now["c"] = 9, 4
	if u, want := g.Lap(), (map[string]uint64{"b": 0, "c": 4}); !maps.Equal(u.Counters, want) {
		t.Errorf("named counters rose by %v, want %v", u.Counters, want)
	}
	if p := u.CPUPercent(); p <= 0 || u.Elapsed <= 0 {
		t.Errorf("a busy loop took %v of %v, %v %%", u.CPU, u.Elapsed, p)
	}
	now = map[string]uint64{"out_of_sequence": 5, "packet_seq_err": 9, "symbol_error": 1}
	for _, names := range [][]string{nil, {"out_of_sequence", "packet_seq_err", "symbol_error"}} {
		was := maps.Clone(now)
		g = NewGauge(func() map[string]uint64 { return maps.Clone(now) }, names)
		now["packet_seq_err"], now["symbol_error"] = 2, 3 // one was reset
		u := g.Lap()
		if notes := u.Notes(); len(notes) != 2 || !strings.HasPrefix(notes[0], "symbol_error rose by 2: ") ||
			!strings.HasPrefix(notes[1], "packet_seq_err was reset") || u.Counters["packet_seq_err"] != 0 {
			t.Errorf("names %v: %q, %v", names, notes, u.Counters)
		}
		now = was
	}
	if u := NewGauge(nil, nil).Lap(); u.Counters != nil {
		t.Errorf("counters %v that nobody asked for", u.Counters)
	}
}
