package sendq

import (
	"testing"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// TestLost stages messages, of which some are posted and complete, and counts those that are lost.
func TestLost(t *testing.T) {
	const more, cancel = wire.FlagMore, wire.FlagCancel
	for _, c := range []struct {
		name     string
		flags    []uint8 // of the frames, which have 10 bytes each
		posted   int
		ok, fail int // of them have completed
		frames   int // that are lost
		probe    bool
	}{
		{"nothing", nil, 0, 0, 0, 0, false},
		{"staged", []uint8{0, 0}, 0, 0, 0, 2, false},
		{"under way", []uint8{0, 0}, 2, 0, 0, 2, false},
		{"completed", []uint8{0, 0, 0}, 3, 2, 0, 1, false},
		{"failed", []uint8{0, 0, 0}, 3, 1, 2, 2, false},
		{"in part, and not accepted", []uint8{0, more, more}, 2, 0, 0, 1, false},
		{"in part, and accepted", []uint8{more, more, 0}, 2, 2, 0, 1, false},
		{"all of several frames", []uint8{more, more, 0}, 2, 0, 1, 3, false},
		{"taken back", []uint8{more, cancel, 0}, 1, 0, 0, 1, false},
		{"completed, and not confirmed", []uint8{0, 0, 0}, 3, 2, 0, 3, true},
		{"failed, the others not confirmed", []uint8{0, 0, 0}, 3, 1, 2, 3, true},
		{"confirmed in part", []uint8{more, more, 0}, 2, 2, 0, 3, true},
	} {
		q := New[int, int](Options{Stage: 8, Signal: 8, Posts: 8, Probe: c.probe})
		for _, f := range c.flags {
			q.Stage(Frame[int]{N: 10, Flags: f})
		}
		q.Begin(Gates{Data: uint32(c.posted)})
		for what := q.Pick(); what != None; what = q.Pick() {
			q.Add(what, wire.Header{})
		}
		q.Release(uint32(c.ok), uint32(c.ok))
		q.Release(uint32(c.ok+c.fail), uint32(c.ok))
		check := func(when string) {
			if l := q.Lost(); l.Frames != c.frames || l.Bytes != int64(10*c.frames) {
				t.Errorf("%s%s: %+v, want %d frames", c.name, when, l, c.frames)
			}
		}
		check("")
		q.Lose()
		for _, ok := q.DropStaged(); ok; _, ok = q.DropStaged() {
		}
		check(", at the end")
	}
}
