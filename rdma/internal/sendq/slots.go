package sendq

import (
	"slices"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// slots are the work requests under way. The completion of a signaled one confirms all before it, so the memory of the
// others is returned at that time. At least each signalWork-th is signaled.
type slots[H comparable, O any] struct {
	list     [Depth]slot[H, O]
	posted   uint32 // work requests
	done     uint32 // of them completed
	acked    uint32 // of them completed with success
	signaled uint32 // posted when the last signaled one was posted
	holding  uint32 // of those since then, that hold something
	lending  uint32 // of them, that hold memory that others than senders wait for
}

// slot is a work request under way.
type slot[H comparable, O any] struct {
	held   H
	op     *Operation[H, O]
	n      int32 // bytes of data
	part   part
	lent   bool // held is
	read   bool // it counts as a read
	atomic bool
}

// post counts a work request, which is signaled if forced, or if it is the every-th without.
func (u *slots[H, O]) post(wr *SendWR, s slot[H, O], forced bool, every uint32) {
	wr.ID = uint64(u.posted)
	u.list[u.posted%Depth] = s
	u.posted++
	var nothing H
	switch {
	case forced || u.posted-u.signaled >= every:
		wr.Flags |= ibv.Signaled
		u.signaled, u.holding, u.lending = u.posted, 0, 0
	case s.held != nothing:
		u.holding++
		if s.lent {
			u.lending++
		}
	}
}

// Need is the reason why somebody needs the completion of the work requests under way.
type Need uint8

const (
	All     Need = iota // to know that the data is in the peer's memory
	Memory              // to get memory back
	Buffers             // to get memory back that is lent
)

// Ask has a PING sent if nothing else will complete for a need, and reports whether it has. The completion of the PING
// confirms everything before it.
func (q *Queue[H, O]) Ask(n Need) bool {
	u := &q.under
	missing := u.posted - u.signaled
	switch n {
	case Memory:
		missing = u.holding
	case Buffers:
		missing = u.lending
	}
	if missing > 0 {
		q.due |= Ping.bit()
	}
	return missing > 0
}

// Release returns the memory of the work requests before upTo, of one with each call. It ends with ok false. Those from
// okUpTo on have failed.
func (q *Queue[H, O]) Release(upTo, okUpTo uint32) (held H, ok bool) {
	u := &q.under
	var nothing H
	for wire.Before(u.done, upTo) && u.done != u.posted {
		s := &u.list[u.done%Depth]
		if s.part != noPart && !wire.Before(u.done, okUpTo) {
			q.lost.add(s.n, s.part)
		}
		if s.op != nil {
			q.ops.complete(s, u.done%Depth, !wire.Before(u.done, okUpTo))
		}
		held, *s = s.held, slot[H, O]{}
		u.done++
		if held != nothing {
			return held, true
		}
	}
	return nothing, false
}

// Lose counts everything under way as failed. It returns no memory, because the device may still use it.
func (q *Queue[H, O]) Lose() {
	for _, ok := q.Release(q.under.posted, q.under.done); ok; _, ok = q.Release(q.under.posted, q.under.done) {
	}
}

// Confirm counts what has completed as being in the peer's memory, and ends the waits for it.
func (q *Queue[H, O]) Confirm() {
	q.under.acked = q.under.done
	if len(q.waits) > 0 {
		q.waits = slices.DeleteFunc(q.waits, func(w *Wait) bool {
			if !wire.Before(q.under.acked, w.UpTo) {
				close(w.C)
				return true
			}
			return false
		})
	}
}

// Wait is a wait for the completion of the work requests before UpTo.
type Wait struct {
	UpTo uint32
	C    chan struct{} // closed when they have completed, or by EndWaits
}

// Await returns a wait for the completion of everything that was posted, and asks for it. It returns nil if it has
// completed.
func (q *Queue[H, O]) Await() *Wait {
	if q.under.acked == q.under.posted {
		return nil
	}
	w := &Wait{q.under.posted, make(chan struct{})}
	q.waits = append(q.waits, w)
	q.Ask(All)
	return w
}

// Forget ends a wait that nobody needs any more.
func (q *Queue[H, O]) Forget(w *Wait) {
	q.waits = slices.DeleteFunc(q.waits, func(o *Wait) bool { return o == w })
}

// Waits returns how many waits have not ended.
func (q *Queue[H, O]) Waits() int { return len(q.waits) }

// EndWaits ends all waits: nothing completes any more. Acked says what has.
func (q *Queue[H, O]) EndWaits() {
	for _, w := range q.waits {
		close(w.C)
	}
	q.waits = nil
}
