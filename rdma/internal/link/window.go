package link

import (
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/credit"
)

// A window grows when the peer has used it up. When a shard has no blocks left to promise, windows shrink again: see
// crowd. Package credit has the counts.

// window counts the data frames that the peer may send.
type window struct {
	l          *Link
	Recv       credit.Receiver
	account    blocks.Account // of blocks that the peer may fill
	Kind       blocks.Kind    // of what it receives
	assembling bool           // a message is begun whose frames stay in their blocks
}

// took counts n data frames as taken by the application, and makes the window larger if the peer has used it up.
// Preconditions: l.Mu is held.
func (win *window) took(n uint32) {
	l := win.l
	more, free := win.Recv.Took(n, win.share(l.Shard.crowd.Share.Load()))
	if more > 0 && !l.End.Ending {
		if win.account.Grow(more) {
			win.Recv.Granted(more)
		} else {
			l.Shard.crowd.Full.Store(true)
		}
	}
	win.ungrant(free)
}

// share is how many frames a window may have whose share is so many blocks: of a compact connection they are short.
func (win *window) share(n uint32) uint32 {
	l := win.l
	return min(n*uint32(l.Shard.Options.Block/l.Shard.FrameMost(win.Kind)), l.Shard.Most.Window)
}

// ungrant returns blocks that the window no longer needs.
func (win *window) ungrant(n int) {
	if n > 0 {
		win.account.Shrink(n)
	}
}

// shrink makes the window smaller if it is larger than to.
// Preconditions: l.Mu is held.
func (win *window) shrink(to uint32, idle bool) {
	l := win.l
	if win.assembling || !l.Started || l.End.Ending || l.End.PeerFIN {
		return
	}
	win.ungrant(win.Recv.Shrink(to, idle))
	if win.Recv.MustLower() {
		l.Pump()
	}
}
