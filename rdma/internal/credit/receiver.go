package credit

import "github.com/pureverbs/pureverbs/rdma/internal/wire"

// Receiver counts the frames that come and are taken, and decides about the limit that the peer is told.
type Receiver struct {
	received uint32 // number of the next frame
	consumed uint32 // frames that were taken
	told     uint32 // limit that the peer knows of
	before   uint32 // the limit before a lower one that the peer has not confirmed
	window   uint32 // blocks for frames from consumed on
	target   uint32 // what the window is to be: less than window while it shrinks
	least    uint32 // the first window
	grow     bool   // the peer has used its window up
	lower    bool   // a lower limit is due
	lowering bool   // it was sent, and has no reply yet
	ended    bool   // no frame comes any more
}

// NewReceiver returns a Receiver with blocks for window frames, which its peer knows of. It never shrinks below that.
func NewReceiver(window uint32) Receiver {
	return Receiver{told: window, window: window, target: window, least: window}
}

// Received returns the number of the next frame.
func (r *Receiver) Received() uint32 { return r.received }

// Told returns the limit that the peer knows of.
func (r *Receiver) Told() uint32 { return r.told }

// Window returns the number of blocks that are there for the frames that may come or were not taken.
func (r *Receiver) Window() uint32 { return r.window }

// Target returns the window that a shrinking one is to have, and otherwise the window.
func (r *Receiver) Target() uint32 { return r.target }

// MayCome reports whether the peer may send the next frame.
func (r *Receiver) MayCome() bool {
	return wire.Before(r.received, r.told) || r.lowering && wire.Before(r.received, r.before)
}

// Came counts a frame that has come. MayCome was true.
func (r *Receiver) Came() {
	r.received++
	if r.received == r.told {
		r.grow = true
	}
}

// Took counts n frames as taken. The caller is to ask for more blocks, up to a window of most, and to report them with
// Granted if it gets them. Those in free are no longer needed.
func (r *Receiver) Took(n, most uint32) (more, free int) {
	r.consumed += n
	if r.ended {
		free = min(int(n), int(r.window))
		r.window -= uint32(free)
		return 0, free
	}
	if r.grow {
		r.grow = false
		if r.target == r.window && r.window < most {
			more = int(min(r.window, most-r.window))
		}
	}
	return more, r.narrow()
}

// Granted makes the window larger by n blocks.
func (r *Receiver) Granted(n int) {
	r.window += uint32(n)
	r.target = r.window
}

// Shrink makes the window smaller if it is larger than to, and returns how many blocks are no longer needed. More are
// free when enough frames are taken, and if ask is true when the peer has replied to a lower limit.
func (r *Receiver) Shrink(to uint32, ask bool) (free int) {
	to = max(to, r.least)
	if r.window <= to || r.lowering {
		return 0
	}
	r.target = to
	free = r.narrow()
	r.lower = ask && r.target < r.window
	return free
}

// narrow frees the blocks beyond a lower target, if the peer can no longer fill them.
func (r *Receiver) narrow() (free int) {
	limit := r.consumed + r.target
	if r.target == r.window || r.lowering || wire.Before(limit, r.told) || wire.Before(limit, r.received) {
		return 0
	}
	r.lower = false
	free = int(r.window - r.target)
	r.window = r.target
	return free
}

// Due reports whether the peer is to be told of the limit, because it has grown by half a window. If the peer has not
// replied to a lower limit, it waits: else each frame from before that would be due another one.
func (r *Receiver) Due() bool {
	untold := int32(r.consumed + r.target - r.told)
	return !r.lowering && untold >= int32(max(r.target/2, 1))
}

// Tell returns the limit for a frame to the peer, and counts it as told.
func (r *Receiver) Tell() uint32 {
	if limit := r.consumed + r.target; wire.Before(r.told, limit) {
		r.told = limit
	}
	return r.told
}

// MustLower reports whether a lower limit is due.
func (r *Receiver) MustLower() bool { return r.lower }

// Lower counts a lower limit as sent. Tell returns it.
func (r *Receiver) Lower() {
	r.lower, r.lowering, r.before = false, true, r.told
	r.told = r.consumed + r.target
}

// Lowering reports whether the peer has not replied to a lower limit yet.
func (r *Receiver) Lowering() bool { return r.lowering }

// Lowered handles that reply, and returns how many blocks are no longer needed.
func (r *Receiver) Lowered() (free int) {
	r.lowering = false
	return r.narrow()
}

// Kept returns how many frames have come and were not taken.
func (r *Receiver) Kept() int { return int(r.received - r.consumed) }

// End returns how many blocks are free because no frame comes any more. Those of frames that were not taken are free
// when Took says so.
func (r *Receiver) End() (free int) {
	free = int(r.window) - r.Kept()
	r.window, r.lower, r.lowering, r.ended = uint32(r.Kept()), false, false, true
	return free
}
