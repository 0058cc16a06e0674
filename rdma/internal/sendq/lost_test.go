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
	}{
		{"nothing", nil, 0, 0, 0, 0},
		{"staged", []uint8{0, 0}, 0, 0, 0, 2},
		{"under way", []uint8{0, 0}, 2, 0, 0, 2},
		{"completed", []uint8{0, 0, 0}, 3, 2, 0, 1},
		{"failed", []uint8{0, 0, 0}, 3, 1, 2, 2},
		{"in part, and not accepted", []uint8{0, more, more}, 2, 0, 0, 1},
		{"in part, and accepted", []uint8{more, more, 0}, 2, 2, 0, 1},
		{"all of several frames", []uint8{more, more, 0}, 2, 0, 1, 3},
		{"taken back", []uint8{more, cancel, 0}, 1, 0, 0, 1},
	} {
		q := New[int, int](Options{Stage: 8, Signal: 8, Posts: 8})
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
