package rdma

// A window grows when the peer has used it up. When a shard has no blocks left to promise, windows shrink again: see
// crowd. Package credit has the counts.

// took counts n data frames as taken by the application, and makes the window larger if the peer has used it up.
// Preconditions: l.mu is held.
func (l *link) took(n uint32) {
	more, free := l.recv.Took(n, l.share(l.e.crowd.share.Load()))
	if more > 0 && !l.end.Ending() {
		if l.account.Grow(more) {
			l.recv.Granted(more)
		} else {
			l.e.crowd.full.Store(true)
		}
	}
	l.ungrant(free)
}

// share is how many frames a window may have whose share is so many blocks: of a compact connection they are short.
func (l *link) share(n uint32) uint32 {
	return min(n*uint32(l.e.opt.Block/l.e.frameMost(l.recvKind)), l.e.most.window)
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
// Preconditions: e.tickMu is held.
func (e *shard) fit(now uint32, links []*link) {
	e.crowd.tick(e.recvMost()-e.recvMost()/8, e.most.window)
	for _, l := range links {
		l.mu.Lock()
		idle := l.alive.idle(now)
		if most, shrink := e.crowd.fit(idle); shrink {
			if !idle {
				most = l.share(most)
			}
			l.shrink(most, idle)
		}
		l.mu.Unlock()
	}
}
