package rdma

// A window grows when the peer has used it up. When a shard has no blocks left to promise, windows shrink again: those
// of idle connections to what they began with, those of others to an equal share. Package credit has the counts.

// idleTicks is after how many ticks without a data frame a connection is idle.
const idleTicks = 2

// took counts n data frames as taken by the application, and makes the window larger if the peer has used it up.
// Preconditions: l.mu is held.
func (l *link) took(n uint32) {
	more, free := l.recv.Took(n, l.e.share.Load())
	if more > 0 && !l.end.Ending() {
		if l.account.Grow(more) {
			l.recv.Granted(more)
		} else {
			l.e.crowded.Store(true)
		}
	}
	l.ungrant(free)
}

// ungrant returns blocks that the window no longer needs.
func (l *link) ungrant(n int) {
	if n > 0 {
		l.account.Shrink(n)
	}
}

// shrink makes the window smaller if it is larger than to.
// Preconditions: l.mu is held.
func (l *link) shrink(to uint32, idle bool) {
	if l.assembling || !l.started || l.end.Ending() || l.end.PeerFIN() {
		return
	}
	l.ungrant(l.recv.Shrink(to, idle))
	if l.recv.MustLower() {
		l.pump()
	}
}

// fit makes the windows of a shard fit to its blocks.
func (e *shard) fit(now uint32, links []*link) {
	crowded, share := e.crowded.Swap(false), e.most.window
	if crowded {
		share = min(uint32(max(e.recvMost()/max(e.ticker.active, 1), startWindow)), share)
	}
	e.share.Store(share)
	e.ticker.active = 0
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
			e.ticker.active++
		}
		l.mu.Unlock()
	}
}
