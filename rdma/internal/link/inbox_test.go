package link

import "testing"

// TestInbox: a reader is woken once for all frames that have come.
func TestInbox(t *testing.T) {
	var in inbox
	if in.wake() {
		t.Error("the reader of an empty inbox is woken")
	}
	for i := range int32(3) {
		in.Push(frame{n: i})
	}
	if !in.wake() || in.wake() {
		t.Error("the reader is not woken once")
	}
	for i := range int32(3) {
		if f := in.Pop(); f.n != i || in.wake() {
			t.Errorf("frame %d, want %d", f.n, i)
		}
	}
	if in.Len() > 0 {
		t.Errorf("%d frames are left", in.Len())
	}
}

// TestDialog: a reader has patience if frames were sent since it waited last.
func TestDialog(t *testing.T) {
	var d dialog
	for i, c := range []struct {
		sent uint32
		want bool
	}{{0, false}, {1, true}, {1, false}, {1, false}, {3, true}, {3, false}} {
		if p := d.next(c.sent); p != nil != c.want || p != nil && p != &d.patience {
			t.Errorf("wait %d: %v, want %v", i, p, c.want)
		}
	}
}
