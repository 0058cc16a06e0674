package sendq

import (
	"slices"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

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
	u := &q.slots
	missing := u.Posted - u.signaled
	switch {
	case n == Memory:
		missing = u.holding
	case n == Buffers:
		missing = u.lending
	case q.IsDue(Probe):
		missing = 0
	case q.opt.Probe:
		missing = u.Posted - u.asked
	}
	if missing > 0 {
		q.Inquire()
	}
	return missing > 0
}

// Inquire has something sent whose completion confirms what was posted before.
func (q *Queue[H, O]) Inquire() {
	if q.opt.Probe { // it takes no receive: the peer has only a few for frames without credits
		q.due |= Probe.bit()
	} else {
		q.due |= Ping.bit()
	}
}

// Release returns the memory of the work requests before upTo, of one with each call. It ends with ok false. Those from
// okUpTo on have failed.
func (q *Queue[H, O]) Release(upTo, okUpTo uint32) (held H, ok bool) {
	u := &q.slots
	var nothing H
	for wire.Before(u.Done, upTo) && u.Done != u.Posted {
		s, failed := &u.list[u.Done%Depth], !wire.Before(u.Done, okUpTo)
		if s.part != noPart && (failed || q.opt.Probe) { // until it is confirmed
			q.lost.add(s.n, s.part)
		}
		if s.read {
			q.ops.reads--
		}
		if s.op != nil {
			q.complete(s, failed)
		}
		if s.probe {
			u.probes--
		}
		if s.probe && !failed {
			u.probed, q.lost = u.Done+1, Lost{}
		}
		u.Failed = u.Failed || failed
		held, *s = s.held, slot[H, O]{}
		u.Done++
		if held != nothing {
			return held, true
		}
	}
	return nothing, false
}

// Lose counts everything under way as failed. It returns no memory, because the device may still use it.
func (q *Queue[H, O]) Lose() {
	for _, ok := q.Release(q.Posted, q.Done); ok; _, ok = q.Release(q.Posted, q.Done) {
	}
}

// Confirm counts what has completed as being in the peer's memory, and ends the waits for it. It reports whether that
// is more than before.
func (q *Queue[H, O]) Confirm() (more bool) {
	acked := q.Done
	if q.opt.Probe {
		acked = q.slots.probed
	}
	more = acked != q.Acked
	q.Acked = acked
	if len(q.waits) > 0 {
		q.waits = slices.DeleteFunc(q.waits, func(w *Wait) bool {
			if !wire.Before(q.Acked, w.UpTo) {
				close(w.C)
				return true
			}
			return false
		})
	}
	return more
}

// Finished returns an operation that has ended, or nil.
func (q *Queue[H, O]) Finished() *Operation[H, O] {
	if q.ops.finished.Len() == 0 {
		return nil
	}
	return q.ops.finished.Pop()
}

// complete counts the next work request, one of an operation, as completed.
func (q *Queue[H, O]) complete(s *slot[H, O], failed bool) {
	m, o := &q.ops, s.op
	if failed {
		o.Failed = true
	} else if s.atomic {
		o.Result = q.scratch.returned(q.Done)
	}
	if o.under--; o.under == 0 && o.posted {
		m.finished.Push(o)
	}
}

// Await returns a wait for the completion of everything that was posted, and asks for it. It returns nil if it has
// completed.
func (q *Queue[H, O]) Await() *Wait {
	if q.Acked == q.Posted {
		return nil
	}
	w := &Wait{q.Posted, make(chan struct{})}
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

// Lost returns what has failed, is under way, or is staged: what is lost if nothing completes any more.
func (q *Queue[H, O]) Lost() Lost {
	l := q.lost
	for n := q.Done; n != q.Posted; n++ {
		if s := &q.slots.list[n%Depth]; s.part != noPart {
			l.add(s.n, s.part)
		}
	}
	for i := range q.data.frames.Len() {
		f := q.data.frames.At(i)
		l.add(f.N, partOf(f.Flags))
	}
	return l
}
