//go:build linux

package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// TestTimers has as many as there are QPs of a device that waits for a peer which is gone.
func TestTimers(t *testing.T) {
	var ts timers
	qp := new(hca.QP)
	for range 1 << 17 { // max_qp
		ts.after(rand.Int64N(1e9), qp, nil)
	}
	last := int64(0)
	for n := uint32(0); len(ts.heap) > 0; n++ {
		if x := ts.pop(); x.at < last || x.qp != qp {
			t.Fatalf("timer %d is at %d, the one before at %d", n, x.at, last)
		} else {
			last = x.at
		}
	}
}
