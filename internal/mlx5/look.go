package mlx5

import (
	"runtime"
	"sync/atomic"
)

// Polling an empty CQ takes no lock: Empty reads the next entry first. Meanwhile the entry may be written, and the ring
// may be freed:
//
//   - Another poller moves ci, and the device may then write the entry again. Empty believes what it saw only if ci is
//     the same afterwards.
//   - Completions may be held elsewhere, and the ring may be freed. The goroutine that does that first sets ring to
//     nil, before ci advances; Empty reads ring before and after the entry.
//   - Close frees the entries when Quiesce has returned: no Empty that saw them is still running. Empty is assembly for
//     this, within which Go never stops a goroutine.

// Empty reports whether the CQ certainly has no completion. If it returns false, only Poll can find out. It needs no
// lock.
func (cq *CQ) Empty() bool { return empty(cq) }

// Idle reports whether calling Empty is worthwhile: the last Poll got fewer completions than it asked for. It needs no
// lock.
func (cq *CQ) Idle() bool { return cq.short.Load() != 0 }

// Hide makes Empty return false until Show is called: completions of this CQ are kept elsewhere, or its ring is about
// to be freed.
func (cq *CQ) Hide() {
	cq.hidden = true
	cq.look()
}

// Show ends the effect of Hide.
func (cq *CQ) Show() {
	cq.hidden = false
	cq.look()
}

// look sets cq.ring: whether Empty may read the ring.
func (cq *CQ) look() {
	p := cq.buf
	if cq.hidden || cq.pending != nil {
		p = nil
	}
	atomic.StorePointer(&cq.ring, p)
}

// Quiesce waits until every call of Empty that began before it has returned, on any CQ. It stops the world, and Go
// stops a goroutine nowhere within assembly.
func Quiesce() { runtime.Stack(nil, true) }
