package rdma

import "github.com/pureverbs/pureverbs/rdma/internal/wire"

// A window grows when the peer has used it up. When a shard has no blocks left to promise, windows
// shrink again: those of idle connections to what they began with, those of others to an equal share.
// A promise is valid until the peer has confirmed a lower one. An active connection's limit therefore does not change
// until enough was consumed. The peer of an idle connection is sent a lower limit, and its reply comes after all frames
// that it sent before it knew: only then are the blocks free for others.

// idleTicks is after how many ticks without a data frame a connection is idle.
const idleTicks = 2

// newLimit returns the limit to send to the peer. It does not go back.
// Preconditions: l.mu is held.
func (l *link) newLimit() uint32 {
	limit := l.consumed + l.target
	if wire.Before(limit, l.told) {
		return l.told
	}
	return limit
}

// mayCome reports whether the next data frame is one that the peer may send.
// Preconditions: l.mu is held.
func (l *link) mayCome() bool {
	return wire.Before(l.received, l.told) || l.lowering && wire.Before(l.received, l.toldBefore)
}

// widen makes the window larger, if the shard has blocks.
// Preconditions: l.mu is held.
func (l *link) widen() {
	if l.target < l.window || l.ending {
		return
	}
	more := min(l.window, max(l.e.share.Load(), l.window)-l.window)
	if more > 0 && l.grant(int(more)) {
		l.window += more
		l.target = l.window
		l.granted += int(more)
	}
}

// grant makes room for n more frames, and reports whether there is.
// Preconditions: l.mu is held.
func (l *link) grant(n int) bool {
	if l.account.Grow(n) {
		return true
	}
	l.e.crowded.Store(true)
	return false
}

// shrink makes the window smaller if it is larger than to.
// Preconditions: l.mu is held.
func (l *link) shrink(to uint32, idle bool) {
	if l.window <= to || l.lowering || l.assembling || !l.started || l.ending || l.finIn {
		return
	}
	l.target = to
	if l.narrow(); idle && l.target < l.window {
		l.lower = true
		l.pump()
	}
}

// narrow frees the blocks beyond a lower target, once the peer can no longer fill them.
// Preconditions: l.mu is held.
func (l *link) narrow() {
	if l.target == l.window || l.lowering || l.drained || wire.Before(l.consumed+l.target, l.told) ||
		wire.Before(l.consumed+l.target, l.received) {
		return
	}
	l.lower = false
	n := int(l.window - l.target)
	l.window = l.target
	l.granted -= n
	l.account.Shrink(n)
}

// lowered handles the peer's reply to a lower limit.
// Preconditions: l.mu is held.
func (l *link) lowered() {
	l.lowering = false
	l.narrow()
}

// fit makes the windows of a shard fit to its blocks.
func (e *shard) fit(now uint32, links []*link) {
	crowded, share := e.crowded.Swap(false), e.most.window
	if crowded {
		share = min(uint32(max(e.recvMost()/max(e.active, 1), startWindow)), share)
	}
	e.share.Store(share)
	e.active = 0
	for _, l := range links {
		l.mu.Lock()
		idle := now-l.dataTick >= idleTicks
		switch {
		case crowded && idle:
			l.shrink(startWindow, true)
		case crowded:
			l.shrink(share, false)
		}
		if !idle {
			e.active++
		}
		l.mu.Unlock()
	}
}
