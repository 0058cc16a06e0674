package sendq

import "github.com/pureverbs/pureverbs/rdma/internal/wire"

// What is the purpose of a work request. The constants are in the order in which Pick returns them. But data frames and
// operations take turns while both may be sent, so an operation waits for at most one data frame.
type What uint8

const (
	Reset   What = iota // the connection is broken, so nothing else matters
	Lower               // a lower limit: a crowded engine waits for the reply
	Answer              // that reply
	Window              // a bind, before the frame that informs the peer of it, or an invalidation
	Data                // the first staged data frame
	Control             // the first frame about leases; needs no credit of data
	Limit               // a limit that no other frame has carried
	FIN                 // after all data
	Ping                // after everything that its completion is to confirm
	Op                  // the next work request of the first operation
	None                // nothing that may be sent is due

	kinds = int(None)
)

// Frame reports whether it is a frame, not a work request of an operation.
func (w What) Frame() bool { return w != Window && w != Op }

func (w What) bit() Set { return 1 << w }

// Set is a set of Whats.
type Set uint16

// Has reports whether w is in the set.
func (s Set) Has(w What) bool { return s&w.bit() != 0 }

// plain are the frames without content.
var plain = [kinds]struct {
	kind   wire.Kind
	flags  uint8
	signal bool // somebody waits for its completion
}{
	Reset:  {wire.Reset, 0, true},
	Lower:  {wire.Limit, wire.FlagLower, false},
	Answer: {wire.Limit, wire.FlagLowered, false},
	Limit:  {wire.Limit, 0, false},
	FIN:    {wire.FIN, 0, true},
	Ping:   {wire.Ping, wire.FlagIgnore, true},
}

// SetDue makes a frame without content due or not: Lower, Answer, Limit or Ping. When it is added, it is no longer due.
func (q *Queue[H, O]) SetDue(w What, due bool) {
	if due {
		q.due |= w.bit()
	} else {
		q.due &^= w.bit()
	}
}

// IsDue reports whether w is due and was not added yet.
func (q *Queue[H, O]) IsDue(w What) bool { return q.due.Has(w) }

// Idle reports whether nothing is due.
func (q *Queue[H, O]) Idle() bool { return q.due == 0 }

// DueEnd makes a RESET or a FIN due. A second FIN, which may say more, is another frame.
func (q *Queue[H, O]) DueEnd(w What, aux uint32) {
	q.aux[w] = aux
	q.due |= w.bit()
}

// Sent reports whether a frame of this kind was added since it was last due.
func (q *Queue[H, O]) Sent(w What) bool { return q.sent.Has(w) && !q.due.Has(w) }

// Ending reports whether a FIN is due or was added: nothing may be staged any more.
func (q *Queue[H, O]) Ending() bool { return (q.due | q.sent).Has(FIN) }

// Confirmed reports whether the last frame of this kind is in the peer's memory, and no other is due.
func (q *Queue[H, O]) Confirmed(w What) bool { return q.Sent(w) && wire.Before(q.at[w], q.under.acked) }

// Tell queues a frame about leases.
func (q *Queue[H, O]) Tell(c wire.Control) {
	q.controls.Push(c)
	q.due |= Control.bit()
}

// Told returns how many frames about leases wait for a credit.
func (q *Queue[H, O]) Told() int { return q.controls.Len() }

// FirstTold returns the first of them. The caller may change its payload until it is added.
func (q *Queue[H, O]) FirstTold() *wire.Control { return q.controls.First() }
