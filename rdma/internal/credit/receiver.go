package credit

import "github.com/pureverbs/pureverbs/rdma/internal/wire"

// Receiver counts the frames that come and are taken, and decides about the limit that the peer is told.
type Receiver struct {
	Received uint32 // number of the next frame
	Told     uint32 // limit that the peer knows of
	Window   uint32 // blocks that are there for the frames that may come or were not taken
	Target   uint32 // what the window is to be: less than Window while it shrinks
	Lowering bool   // a lower limit was sent, and has no reply yet
	consumed uint32 // frames that were taken
	before   uint32 // the limit before a lower one that the peer has not confirmed
	least    uint32 // the first window
	grow     bool   // the peer has used its window up
	lower    bool   // a lower limit is due
	ended    bool   // no frame comes any more
}

// NewReceiver returns a Receiver with blocks for window frames, which its peer knows of. It never shrinks below that.
func NewReceiver(window uint32) Receiver {
	return Receiver{Told: window, Window: window, Target: window, least: window}
}

// MayCome reports whether the peer may send the next frame.
func (r *Receiver) MayCome() bool {
	return wire.Before(r.Received, r.Told) || r.Lowering && wire.Before(r.Received, r.before)
}

// Came counts a frame that has come. MayCome was true.
func (r *Receiver) Came() {
	r.Received++
	if r.Received == r.Told {
		r.grow = true
	}
}

// Took counts n frames as taken. The caller is to ask for more blocks, up to a window of most, and to report them with
// Granted if it gets them. Those in free are no longer needed.
func (r *Receiver) Took(n, most uint32) (more, free int) {
	r.consumed += n
	if r.ended {
		free = min(int(n), int(r.Window))
		r.Window -= uint32(free)
		return 0, free
	}
	if r.grow {
		r.grow = false
		if r.Target == r.Window && r.Window < most {
			more = int(min(r.Window, most-r.Window))
		}
	}
	return more, r.narrow()
}

// Granted makes the window larger by n blocks.
func (r *Receiver) Granted(n int) {
	r.Window += uint32(n)
	r.Target = r.Window
}

// Shrink makes the window smaller if it is larger than to, and returns how many blocks are no longer needed. More are
// free when enough frames are taken, and if ask is true when the peer has replied to a lower limit.
func (r *Receiver) Shrink(to uint32, ask bool) (free int) {
	to = max(to, r.least)
	if r.Window <= to || r.Lowering {
		return 0
	}
	r.Target = to
	free = r.narrow()
	r.lower = ask && r.Target < r.Window
	return free
}

// narrow frees the blocks beyond a lower target, if the peer can no longer fill them.
func (r *Receiver) narrow() (free int) {
	limit := r.consumed + r.Target
	if r.Target == r.Window || r.Lowering || wire.Before(limit, r.Told) || wire.Before(limit, r.Received) {
		return 0
	}
	r.lower = false
	free = int(r.Window - r.Target)
	r.Window = r.Target
	return free
}

// Due reports whether the peer is to be told of the limit, because it has grown by half a window. If the peer has not
// replied to a lower limit, it waits, and afterwards it counts only what is beyond the frames that have come: else each
// frame from before that would be due another one.
func (r *Receiver) Due() bool {
	known := r.Told
	if wire.Before(known, r.Received) {
		known = r.Received
	}
	untold := int32(r.consumed + r.Target - known)
	return !r.Lowering && untold >= int32(max(r.Target/2, 1))
}

// Tell returns the limit for a frame to the peer, and counts it as told.
func (r *Receiver) Tell() uint32 {
	if limit := r.consumed + r.Target; wire.Before(r.Told, limit) {
		r.Told = limit
	}
	return r.Told
}

// MustLower reports whether a lower limit is due.
func (r *Receiver) MustLower() bool { return r.lower }

// Lower counts a lower limit as sent. Tell returns it.
func (r *Receiver) Lower() {
	r.lower, r.Lowering, r.before = false, true, r.Told
	r.Told = r.consumed + r.Target
}

// Lowered handles that reply, and returns how many blocks are no longer needed.
func (r *Receiver) Lowered() (free int) {
	r.Lowering = false
	return r.narrow()
}

// Kept returns how many frames have come and were not taken.
func (r *Receiver) Kept() int { return int(r.Received - r.consumed) }

// End returns how many blocks are free because no frame comes any more. Those of frames that were not taken are free
// when Took says so.
func (r *Receiver) End() (free int) {
	free = int(r.Window) - r.Kept()
	r.Window, r.lower, r.Lowering, r.ended = uint32(r.Kept()), false, false, true
	return free
}
