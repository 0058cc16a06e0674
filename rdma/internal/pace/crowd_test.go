package pace

import (
	"testing"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestCrowd divides 100 blocks among connections. Some of them are idle.
func TestCrowd(t *testing.T) {
	const blocks, most = 100, 64
	var c Crowd
	for i, step := range []struct {
		full       bool
		busy, idle int
		share      uint32
		shrink     bool
	}{
		{false, 4, 3, most, false},
		{true, 2, 5, 25, true}, // 4 were busy
		{true, 50, 0, 50, true},
		{true, 1, 0, wire.MinLimit, true}, // 2 blocks for each are too few
		{false, 0, 1, most, false},
		{true, 1, 0, most, true}, // none was busy
	} {
		c.Full.Store(step.full)
		c.Tick(blocks, most)
		if got := c.Share.Load(); got != step.share {
			t.Errorf("step %d: a share of %d, want %d", i, got, step.share)
		}
		for range step.busy {
			if to, shrink := c.Fit(false); to != step.share || shrink != step.shrink {
				t.Errorf("step %d: %d, %v for a busy connection", i, to, shrink)
			}
		}
		for range step.idle {
			if to, shrink := c.Fit(true); to != wire.MinLimit || shrink != step.shrink {
				t.Errorf("step %d: %d, %v for an idle connection", i, to, shrink)
			}
		}
	}
}
