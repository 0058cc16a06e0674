package rdma

import (
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/credit"
)

// A window grows when the peer has used it up. When a shard has no blocks left to promise, windows shrink again: see
// crowd. Package credit has the counts.

// window counts the data frames that the peer may send.
type window struct {
	l          *link
	recv       credit.Receiver
	account    blocks.Account // of blocks that the peer may fill
	kind       blocks.Kind    // of what it receives
	assembling bool           // a message is begun whose frames stay in their blocks
}

// took counts n data frames as taken by the application, and makes the window larger if the peer has used it up.
// Preconditions: l.mu is held.
func (win *window) took(n uint32) {
	l := win.l
	more, free := win.recv.Took(n, win.share(l.e.crowd.Share.Load()))
	if more > 0 && !l.end.Ending() {
		if win.account.Grow(more) {
			win.recv.Granted(more)
		} else {
			l.e.crowd.Full.Store(true)
		}
	}
	win.ungrant(free)
}

// share is how many frames a window may have whose share is so many blocks: of a compact connection they are short.
func (win *window) share(n uint32) uint32 {
	l := win.l
	return min(n*uint32(l.e.opt.Block/l.e.frameMost(win.kind)), l.e.most.window)
}

// ungrant returns blocks that the window no longer needs.
func (win *window) ungrant(n int) {
	if n > 0 {
		win.account.Shrink(n)
	}
}

// shrink makes the window smaller if it is larger than to.
// Preconditions: l.mu is held.
func (win *window) shrink(to uint32, idle bool) {
	l := win.l
	if win.assembling || !l.started || l.end.Ending() || l.end.PeerFIN() {
		return
	}
	win.ungrant(win.recv.Shrink(to, idle))
	if win.recv.MustLower() {
		l.pump()
	}
}

// fit makes the windows of a shard fit to its blocks.
// Preconditions: e.tickMu is held.
func (e *shard) fit(now uint32, links []*link) {
	e.crowd.Tick(e.recvMost()-e.recvMost()/8, e.most.window)
	for _, l := range links {
		l.mu.Lock()
		idle := l.alive.Idle(now)
		if most, shrink := e.crowd.Fit(idle); shrink {
			if !idle {
				most = l.win.share(most)
			}
			l.win.shrink(most, idle)
		}
		l.mu.Unlock()
	}
}
