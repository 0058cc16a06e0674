package rdma

import "testing"

// TestCrowd divides 100 blocks among connections. Some of them are idle.
func TestCrowd(t *testing.T) {
	const blocks, most = 100, 64
	var c crowd
	for i, step := range []struct {
		full       bool
		busy, idle int
		share      uint32
		shrink     bool
	}{
		{false, 4, 3, most, false},
		{true, 2, 5, 25, true}, // 4 were busy
		{true, 50, 0, 50, true},
		{true, 1, 0, startWindow, true}, // 2 blocks for each are too few
		{false, 0, 1, most, false},
		{true, 1, 0, most, true}, // none was busy
	} {
		c.full.Store(step.full)
		c.tick(blocks, most)
		if got := c.share.Load(); got != step.share {
			t.Errorf("step %d: a share of %d, want %d", i, got, step.share)
		}
		for range step.busy {
			if to, shrink := c.fit(false); to != step.share || shrink != step.shrink {
				t.Errorf("step %d: %d, %v for a busy connection", i, to, shrink)
			}
		}
		for range step.idle {
			if to, shrink := c.fit(true); to != startWindow || shrink != step.shrink {
				t.Errorf("step %d: %d, %v for an idle connection", i, to, shrink)
			}
		}
	}
}
