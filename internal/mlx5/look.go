package mlx5

import (
	"runtime"
	"sync/atomic"
)

// A poll of an empty CQ takes no lock: Empty looks at the entry first. What it reads may be written meanwhile, and
// freed:
//
//   - Another poller moves ci, and the device may then write the entry again. Empty believes what it saw only if ci is
//     the same afterwards.
//   - Completions may be held elsewhere, and the ring may go away. Whoever does that sets ring to nil first, before ci
//     moves on; Empty looks at ring before and after the entry.
//   - Close frees the entries when Quiesce has returned: no Empty that saw them is still running. Empty is assembly for
//     this, within which Go never stops a goroutine.

// Empty reports whether no completion is there. It needs no lock; false means that Poll has to see.
func (cq *CQ) Empty() bool { return empty(cq) }

// Idle reports whether Empty is worth a look: the last Poll got fewer completions than it asked for. It needs no lock.
func (cq *CQ) Idle() bool { return cq.short.Load() != 0 }

// Hide makes Empty return false, since Poll is not the only one to ask for completions of this CQ, until Show.
func (cq *CQ) Hide() {
	cq.hidden = true
	cq.look()
}

// Show ends what Hide began.
func (cq *CQ) Show() {
	cq.hidden = false
	cq.look()
}

// look lets Empty look at the ring, or not.
func (cq *CQ) look() {
	p := cq.buf
	if cq.hidden || cq.pending != nil {
		p = nil
	}
	atomic.StorePointer(&cq.ring, p)
}

// Quiesce waits until no Empty is running that began before, whatever CQ it is of. It stops the world: a goroutine that
// runs is stopped only where it can be, which is not within assembly.
func Quiesce() { runtime.Stack(nil, true) }
