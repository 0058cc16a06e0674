package blocks

import "sync"

// Messages admits messages that are copied together while they come, because they are too long to stay in their blocks.
// It counts their announced length in the budget from the first frame to the last, so that a message which was admitted
// needs nothing that another one has. A message that finds no room waits; its peer then finds no credits. The one that
// has waited for longest comes next. Nothing waits for ever:
//
//   - while no other message is admitted, one is, whatever the budget has;
//   - while another waits, a message is overdue that is not complete in time, and its connection has to end.
//
// Messages is safe for concurrent use.
type Messages struct {
	budget *Budget
	trim   func() bool

	mu       sync.Mutex
	now      uint32
	waiting  list[*Room] // the longest first
	admitted list[*Room] // the oldest first
}

// NewMessages returns Messages that share a budget with blocks and buffers. trim is as in Config.
func NewMessages(b *Budget, trim func() bool) *Messages { return &Messages{budget: b, trim: trim} }

// Room is the memory of a message. Its fields are under the lock of its Messages.
type Room struct {
	Wake    func() // it was admitted after a wait; called with the lock of the Messages
	Overdue func() // it is overdue

	place    elem[*Room]
	n        int64
	since    uint32
	admitted bool
	counted  bool // in the budget
}

// A message may take patience ticks, and one more for each paceBytes.
const (
	patience  = 5
	paceBytes = 16 << 20
)

// Ask reports whether a message of n bytes is admitted. If not, it waits until Leave.
func (a *Messages) Ask(r *Room, n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.n, r.place.value = int64(n), r
	if a.waiting.n == 0 && a.admit(r) {
		return true
	}
	a.waiting.push(&r.place)
	return false
}

// Admitted reports whether a message is.
func (a *Messages) Admitted(r *Room) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return r.admitted
}

// Leave ends the stay of a message, or its wait.
func (a *Messages) Leave(r *Room) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.admitted {
		a.admitted.remove(&r.place)
		if r.counted {
			a.budget.DropBuffers(r.n)
		} else {
			a.budget.spare(-r.n)
		}
	} else {
		a.waiting.remove(&r.place)
	}
	r.admitted, r.counted = false, false
	a.next()
}

// Poke looks for room again: others may have given memory back.
func (a *Messages) Poke() {
	a.mu.Lock()
	a.next()
	a.mu.Unlock()
}

// Tick is called once a second. It tells the oldest message that it is overdue, if it is and another one waits.
func (a *Messages) Tick() {
	a.mu.Lock()
	a.now++
	a.next()
	var late *Room
	if e := a.admitted.first; e != nil && a.waiting.n > 0 {
		if r := e.value; a.now-r.since > patience+uint32(r.n/paceBytes) {
			late = r
		}
	}
	a.mu.Unlock()
	if late != nil {
		late.Overdue()
	}
}

// next admits messages that wait, in their order.
// Preconditions: a.mu is held.
func (a *Messages) next() {
	for a.waiting.n > 0 {
		r := a.waiting.first.value
		a.waiting.remove(&r.place)
		if !a.admit(r) {
			a.waiting.pushFirst(&r.place)
			return
		}
		r.Wake()
	}
}

// admit makes room for r, and reports whether there is.
// Preconditions: a.mu is held.
func (a *Messages) admit(r *Room) bool {
	switch {
	case a.budget.AddBuffers(r.n), a.trim() && a.budget.AddBuffers(r.n):
		r.counted = true
	case a.admitted.n > 0:
		return false
	default:
		a.budget.spare(r.n)
	}
	r.admitted, r.since = true, a.now
	a.admitted.push(&r.place)
	return true
}
