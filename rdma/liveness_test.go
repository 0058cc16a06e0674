package rdma

import (
	"math"
	"testing"
)

// TestLiveness has a connection whose last frame came at tick 0, and looks when it asks and when it gives up.
func TestLiveness(t *testing.T) {
	for _, c := range []struct {
		every     uint32
		completes int // ticks that a PING takes; 0: it never completes
		asks      []uint32
		stuck     uint32 // 0: never
	}{
		{every: 0},
		{every: 1, asks: []uint32{1}, stuck: 6},
		{every: 3, asks: []uint32{3}, stuck: 15},
		{every: 3, completes: 11, asks: []uint32{3, 14, 25}},
		{every: 10, completes: 1, asks: []uint32{10, 20}},
	} {
		for _, start := range []uint32{0, math.MaxUint32 - 2} { // the number of a tick wraps around
			a := liveness{every: c.every}
			a.begin(start)
			var asks []uint32
			stuck := uint32(0)
			for i := uint32(1); i < 30 && stuck == 0; i++ {
				if a.asking && c.completes > 0 && i == asks[len(asks)-1]+uint32(c.completes) {
					a.asking = false
				}
				switch a.beat(start + i) {
				case verdictAsk:
					asks = append(asks, i)
				case verdictStuck:
					stuck = i
				}
			}
			if len(asks) != len(c.asks) || stuck != c.stuck {
				t.Errorf("%+v: asked at %v, stuck at %d", c, asks, stuck)
				continue
			}
			for i := range asks {
				if asks[i] != c.asks[i] {
					t.Errorf("%+v: asked at %v", c, asks)
				}
			}
		}
	}
}

func TestLiveness_Idle(t *testing.T) {
	a := liveness{}
	a.begin(math.MaxUint32)
	a.frame++ // a frame without data
	for i, want := range []struct{ idle, quiet bool }{{false, false}, {true, false}, {true, true}} {
		if now := uint32(i); a.idle(now) != want.idle || a.quiet(now) != want.quiet {
			t.Errorf("tick %d: idle %v, quiet %v, want %v", now, a.idle(now), a.quiet(now), want)
		}
	}
}
