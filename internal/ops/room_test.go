package ops

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// TestRoomFailed sees that a failed receive frees no place of the send queue: a session on a queue that is full damages
// what is posted there.
func TestRoomFailed(t *testing.T) {
	r := newRoom(4, false)
	r.reserve([]abi.SendWR{{WRID: 1}, {WRID: 2, SendFlags: abi.IBV_SEND_SIGNALED}, {WRID: 3}, {WRID: 3}})
	for _, c := range []struct {
		id   uint64
		free int
	}{{99, 0}, {2, 2}, {1, 2}, {3, 4}, {3, 4}} {
		if r.Failed(c.id); r.Free() != c.free {
			t.Errorf("after a failed completion with ID %d: %d places, want %d", c.id, r.Free(), c.free)
		}
	}
	r.reserve([]abi.SendWR{{WRID: 5, SendFlags: abi.IBV_SEND_SIGNALED}})
	if r.Completed(); r.Free() != 4 {
		t.Errorf("after a completion: %d places", r.Free())
	}
}
