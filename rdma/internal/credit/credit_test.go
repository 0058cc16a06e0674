package credit

import (
	"testing"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

func TestSender(t *testing.T) {
	s := NewSender(2, 64)
	for want := range uint32(2) {
		if s.Left() == 0 || s.Sent != want || s.Next() != want {
			t.Errorf("room %v, %d frames sent; want room for frame %d", s.Left() > 0, s.Sent, want)
		}
	}
	if s.Left() != 0 {
		t.Error("room beyond the limit")
	}
	s.Raise(10)
	s.Raise(9)
	if s.Left() != 8 {
		t.Errorf("room for %d frames, want 8", s.Left())
	}
	for _, c := range []struct {
		limit uint32
		lower bool
		want  string
	}{
		{10, false, ""}, {66, false, ""}, {67, false, "at most 66"}, {9, false, "10 or more"}, {9, true, ""},
		{1<<32 - 54, true, ""}, {1<<32 - 55, true, "10 or more"}, {1 << 31, false, "at most 66"},
		{1 << 30, false, "at most 66"}, {1 << 30, true, "at most 66"},
	} {
		if got := s.Check(c.limit, c.lower); got != c.want {
			t.Errorf("limit %d, lower %v: %q, want %q", c.limit, c.lower, got, c.want)
		}
	}
	if s.Answer {
		t.Error("a reply is due to a limit that grows")
	}
	s.Lower(3)
	if !s.Answer || s.Left() == 0 || s.Next() != 2 || s.Left() > 0 {
		t.Error("want a reply to be due, and room for frame 2 alone")
	}
	if s.Answered(); s.Answer {
		t.Error("a second reply is due")
	}
	steps := 0
	for limit := s.Sent - 64; s.Check(limit, true) == "" && steps < 9; limit -= 64 {
		s.Lower(limit)
		steps++
	}
	if steps > 1 || s.Left() > 0 {
		t.Errorf("%d steps of 64 below what was sent are accepted, want 1; room: %v", steps, s.Left() > 0)
	}
}

// come has n frames come.
func come(t *testing.T, r *Receiver, n int) {
	t.Helper()
	for range n {
		if !r.MayCome() {
			t.Fatalf("frame %d may not come", r.Received)
		}
		r.Came()
	}
}

func TestReceiver_Grow(t *testing.T) {
	r := NewReceiver(2)
	come(t, &r, 1)
	if more, free := r.Took(1, 64); more != 0 || free != 0 || !r.Due() || r.Tell() != 3 || r.Due() {
		t.Errorf("with half of the window: %d more, %d free, limit %d; want 0, 0, 3", more, free, r.Told)
	}
	come(t, &r, 2)
	if r.MayCome() {
		t.Error("a frame may come beyond the limit")
	}
	if more, _ := r.Took(1, 64); more != 2 {
		t.Errorf("%d more blocks, want 2: the window doubles", more)
	}
	if more, _ := r.Took(1, 64); more != 0 {
		t.Errorf("%d more blocks, want them to be asked for once", more)
	}
	r.Granted(2)
	if r.Window != 4 || r.Tell() != 7 {
		t.Errorf("window %d, limit %d; want 4, 7", r.Window, r.Told)
	}
	come(t, &r, 4)
	if more, _ := r.Took(4, 5); more != 1 {
		t.Errorf("%d more blocks, want 1: the share is 5", more)
	}
	r.Tell()
	come(t, &r, 4)
	if more, _ := r.Took(4, 3); more != 0 {
		t.Errorf("%d more blocks, want 0: the share is smaller than the window", more)
	}
	r.Tell()
	come(t, &r, 1)
	if free := r.End(); free != 3 || r.Kept() != 1 {
		t.Errorf("%d blocks are free at the end, %d kept; want 3, 1", free, r.Kept())
	}
	if free := r.End(); free != 0 {
		t.Errorf("%d blocks are free at the second end", free)
	}
	if more, free := r.Took(1, 64); more != 0 || free != 1 || r.Kept() != 0 || r.Window != 0 {
		t.Errorf("the last frame: %d more, %d free; want 0, 1", more, free)
	}
}

func TestReceiver_ShrinkActive(t *testing.T) {
	r := NewReceiver(2)
	r.Granted(6)
	r.Tell() // 8
	if free := r.Shrink(4, false); free != 0 || r.MustLower() || r.Window != 8 || r.Target != 4 || r.Due() {
		t.Errorf("%d blocks are free, lower limit %v, window %d; want 0, false, 8", free, r.MustLower(), r.Window)
	}
	come(t, &r, 8)
	if more, free := r.Took(3, 64); more != 0 || free != 0 || r.Tell() != 8 {
		t.Errorf("with 5 frames not taken: %d more, %d free, limit %d; want 0, 0, 8", more, free, r.Told)
	}
	if more, free := r.Took(1, 64); more != 0 || free != 4 || r.Window != 4 || r.Due() {
		t.Errorf("with 4 frames not taken: %d more, %d free, window %d; want 0, 4, 4", more, free, r.Window)
	}
	if free := r.Shrink(1, false); free != 0 || r.Target != 2 {
		t.Errorf("%d blocks are free, target %d; want 0, 2, the first window", free, r.Target)
	}
}

func TestReceiver_ShrinkIdle(t *testing.T) {
	r := NewReceiver(2)
	r.Granted(6)
	r.Tell() // 8
	come(t, &r, 1)
	r.Took(1, 64)
	if free := r.Shrink(2, true); free != 0 || !r.MustLower() {
		t.Errorf("%d blocks are free, lower limit %v; want 0, true", free, r.MustLower())
	}
	if r.Lower(); r.Tell() != 3 || r.MustLower() || !r.Lowering {
		t.Errorf("limit %d, due %v, no reply %v; want 3, false, true", r.Told, r.MustLower(), r.Lowering)
	}
	come(t, &r, 7) // that were sent earlier
	if r.MayCome() {
		t.Error("frame 8 may come")
	}
	if free := r.Shrink(2, true); free != 0 || r.MustLower() {
		t.Error("a second lower limit is due before the reply")
	}
	if more, free := r.Took(4, 64); more != 0 || free != 0 {
		t.Errorf("before the reply: %d more, %d free", more, free)
	}
	if free := r.Lowered(); free != 0 || r.MayCome() {
		t.Errorf("with 3 frames not taken: %d free, may come: %v; want 0, false", free, r.MayCome())
	}
	if _, free := r.Took(1, 64); free != 6 || r.Window != 2 {
		t.Errorf("with 2 frames not taken: %d free, window %d; want 6, 2", free, r.Window)
	}
	if r.Took(2, 64); !r.Due() || r.Tell() != 10 || !r.MayCome() {
		t.Errorf("limit %d, want it due, and 10", r.Told)
	}
}

// TestReceiver_DueWhenLowered lowers the limit of a peer that has already sent all that it might, and takes those
// frames in every way around the peer's reply: none of them is due a limit of its own, for the receiver has no place
// for more than three of them. In the end the peer may send more than half a window.
func TestReceiver_DueWhenLowered(t *testing.T) {
	const least = 2
	for _, window := range []uint32{3, 4, 5, 8, 17, wire.MaxWindow} {
		for to := uint32(least); to < window; to++ {
			for before := range window { // frames that are taken before the lower limit is sent
				for waiting := range window - before { // and until the reply
					dueWhenLowered(t, window, to, before, waiting)
				}
			}
		}
	}
}

func dueWhenLowered(t *testing.T, window, to, before, waiting uint32) {
	t.Helper()
	r := NewReceiver(2)
	r.Granted(int(window) - 2)
	r.Tell()
	come(t, &r, int(window))
	r.Shrink(to, true)
	due := 0
	take := func() {
		if r.Took(1, 0); r.Due() {
			r.Tell()
			due++
		}
	}
	for range before {
		take()
	}
	if r.MustLower() { // else the blocks are free without asking
		due = 0 // the reply comes after those
		r.Lower()
		for range waiting {
			take()
		}
		if due > 0 {
			t.Fatalf("window %d to %d, %d and %d taken: a limit is due before the reply", window, to, before, waiting)
		}
		r.Lowered()
	}
	for r.Kept() > 0 {
		take()
	}
	if due > 3 || r.Window != to || r.Told-r.Received <= to/2 {
		t.Fatalf("window %d to %d, %d and %d taken: %d limits are due, window %d, limit %d after %d frames",
			window, to, before, waiting, due, r.Window, r.Told, r.Received)
	}
}

// TestReceiver_Untold frees blocks at once that the peer was not told of.
func TestReceiver_Untold(t *testing.T) {
	r := NewReceiver(2)
	r.Granted(6)
	if free := r.Shrink(2, true); free != 6 || r.MustLower() {
		t.Errorf("%d blocks are free, lower limit %v; want 6, false", free, r.MustLower())
	}
}

// exchange sends n frames over a connection.
func exchange(s *Sender, r *Receiver, n int) {
	for range n {
		if s.Left() > 0 {
			s.Next()
			r.Came()
			r.Took(1, 64)
		}
		if r.Due() {
			s.Raise(r.Tell())
		}
	}
}

func TestAllocs(t *testing.T) {
	s, r := NewSender(2, 64), NewReceiver(2)
	if n := testing.AllocsPerRun(100, func() { exchange(&s, &r, 100) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFrame(b *testing.B) {
	s, r := NewSender(2, 64), NewReceiver(2)
	r.Granted(62)
	b.ReportAllocs()
	for b.Loop() {
		exchange(&s, &r, 1)
	}
}
