package progress

import (
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

var all = [modelWaiters]bool{true, true, true}

// TestModel explores what a few goroutines can do. With PUREVERBS_FULL there are more of them.
func TestModel(t *testing.T) {
	total, start := 0, time.Now()
	for _, tt := range []struct {
		name string
		full bool
		run  modelRun
	}{
		{"a dialog", false, modelRun{posts: [3]uint8{3}, spins: all, expires: all}},
		{"one reads", false, modelRun{posts: [3]uint8{3}, leads: true, expires: all}},
		{"one reads and polls", false, modelRun{posts: [3]uint8{2}, leads: true, spins: all, expires: all, eager: true}},
		{"a dialog and a sleeper", false, modelRun{posts: [3]uint8{2, 1}, spins: [3]bool{true}}},
		{"two", false, modelRun{posts: [3]uint8{1, 1}, spins: all, leads: true}},
		{"two until a context ends", true, modelRun{posts: [3]uint8{1, 1}, spins: all, leads: true, expires: all}},
		{"the source fails", false, modelRun{posts: [3]uint8{1}, spins: all, leads: true, breaks: true}},
		{"the source fails for two", true, modelRun{posts: [3]uint8{1, 1}, spins: all, leads: true, breaks: true}},
		{"the engine ends", false, modelRun{posts: [3]uint8{2}, spins: all, leads: true, stops: true}},
		{"the engine of two ends", true, modelRun{posts: [3]uint8{1, 1}, spins: all, leads: true, stops: true}},
		{"three sleep", false, modelRun{posts: [3]uint8{1, 1, 1}}},
		{"CatchUp", false, modelRun{posts: [3]uint8{1}, spins: all, leads: true, does: [3]what{0, 0, catches}}},
	} {
		if tt.full && !testutil.Full() {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			began := time.Now()
			o, err := tt.run.explore()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%v, %v", o, time.Since(began).Round(time.Millisecond))
			if o.wrong != "" {
				t.Fail()
			}
			total += o.states
		})
	}
	t.Logf("%d states in %v", total, time.Since(start).Round(time.Millisecond))
}
