package pace

import (
	"math"
	"slices"
	"testing"
)

// TestLiveness has a connection that sent something at tick 0, and looks when it asks and when it gives up.
func TestLiveness(t *testing.T) {
	const never = 100
	for _, c := range []struct {
		every  uint32
		frames uint32   // a frame comes every so many ticks; 0: none
		takes  uint32   // ticks after which the adapter acknowledges; never: it does not
		lost   uint32   // so many completions of PINGs are lost
		under  bool     // what was sent at tick 0 is under way
		asks   []uint32 // in the first 30 ticks
		stuck  uint32   // 0: not
	}{
		{every: 0, takes: never, under: true},
		{every: 1, takes: never, asks: []uint32{1, 2, 3, 4, 5}, stuck: 6},
		{every: 3, takes: never, asks: []uint32{3, 6, 9, 12}, stuck: 15},
		{every: 3, takes: never, frames: 1, under: true, asks: []uint32{3, 6, 9, 12}, stuck: 15},
		{every: 3, takes: never, frames: 1},
		{every: 3, takes: 11, asks: []uint32{3, 6, 9, 12, 15, 18, 21, 24, 27}},
		{every: 10, takes: 1, asks: []uint32{10, 20}},
		{every: 10, takes: 1, frames: 1, under: true, asks: []uint32{10}},
		{every: 10, takes: 1, lost: 1, asks: []uint32{10, 20}},
	} {
		for _, start := range []uint32{0, math.MaxUint32 - 2} { // the number of a tick wraps around
			a := Liveness{Every: c.every}
			a.Begin(start)
			under, stuck := c.under, uint32(0)
			var asks, due []uint32
			for i := uint32(1); i < 30 && stuck == 0; i++ {
				if len(due) > 0 && due[0] == i {
					a.Confirmed(start+i, true)
					due = due[1:]
					under = len(due) > 0
				}
				switch a.Beat(start+i, under) {
				case Ask:
					if asks = append(asks, i); uint32(len(asks)) > c.lost {
						due = append(due, i+c.takes)
					}
					under = true
				case Stuck:
					stuck = i
				}
				if c.frames > 0 && i%c.frames == 0 {
					a.Frame = start + i
				}
			}
			if !slices.Equal(asks, c.asks) || stuck != c.stuck {
				t.Errorf("%+v: asked at %v, stuck at %d", c, asks, stuck)
			}
		}
	}
}

func TestLiveness_Idle(t *testing.T) {
	a := Liveness{}
	a.Begin(math.MaxUint32)
	a.Frame++ // a frame without data
	for i, want := range []struct{ idle, quiet bool }{{false, false}, {true, false}, {true, true}} {
		if now := uint32(i); a.Idle(now) != want.idle || a.Quiet(now) != want.quiet {
			t.Errorf("tick %d: idle %v, quiet %v, want %v", now, a.Idle(now), a.Quiet(now), want)
		}
	}
}
