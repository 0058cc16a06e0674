package progress

import "fmt"

// state is the word that decides which goroutine polls the CQ and which reads its events. Each method below is one
// transition: it returns the state that follows, and what the caller has to do then. The tests explore all of them.
//
//	          take, notice, sleep, ask, lead, look
//	covered ──────────────────────────────────────> turn
//	   ^  ^                                         │ │ │
//	   │  └── cover: the CQ is armed, and somebody ─┘ │ │
//	   │      reads events                            │ │
//	   └───── pass: the reader is to poll ────────────┘ │
//	away  <── rest: nobody sleeps, and the timer runs ──┘   (and back to turn)
type state uint32

const (
	taken  state = 1 << iota // a goroutine polls; it alone polls and arms
	event                    // an event was read since: p.armed is not true any more
	away                     // nobody has the turn, and the CQ is not covered. Nobody sleeps, and the timer runs
	timing                   // the timer runs, or is about to be started
	recent                   // a goroutine has polled while it waited since the timer was started
	closed                   // nobody takes the turn any more

	readerShift = 6      // two bits: a reader
	sleeperBit  = 1 << 8 // the rest: how many goroutines wait and depend on another one
	readerMask  = 3 << 6
)

// A reader is the kind of goroutine that reads the events.
type reader uint32

const (
	poller  reader = iota // the poller, or it was just promoted
	evicted               // the poller, which is to hand over to a goroutine that waits for that
	waiter                // a goroutine that waits for its own Signal
	nobody                // a goroutine that has waited will be back: turn or away
)

func (r reader) String() string { return [...]string{"poller", "evicted", "waiter", "nobody"}[r] }

func (s state) has(bit state) bool { return s&bit != 0 }
func (s state) reader() reader     { return reader(s&readerMask) >> readerShift }
func (s state) sleepers() uint32   { return uint32(s) / sleeperBit }
func (s state) read(r reader) state {
	return s&^readerMask | state(r)<<readerShift
}

func (s state) String() string {
	return fmt.Sprintf("turn %v, event %v, away %v, timing %v, closed %v, %v reads, %d sleep", s.has(taken),
		s.has(event), s.has(away), s.has(timing), s.has(closed), s.reader(), s.sleepers())
}

// free reports whether the turn can be taken.
func (s state) free() bool { return !s.has(taken | closed) }

// take takes the turn for a goroutine that waits.
func (s state) take() (_ state, took bool) {
	if !s.free() {
		return s, false
	}
	if s.has(timing) {
		s |= recent
	}
	return s&^away | taken, true
}

// notice takes the turn for the reader, which comes back from reading. If another goroutine has the turn, that one
// learns of the event. While a goroutine is away, the timer takes care of the event.
func (s state) notice(read bool) (_ state, took bool) {
	switch {
	case s.free() && !s.has(away):
		return s | taken, true
	case s.has(taken) && read:
		return s | event, false
	}
	return s, false
}

// sleep adds a goroutine that depends on another one. If nobody polls and the CQ is not covered, it takes the turn.
func (s state) sleep() (_ state, took bool) {
	s += sleeperBit
	if s.free() && s.has(away) {
		return s&^away | taken, true
	}
	return s, false
}

// ask is sleep for a goroutine that wants the CQ polled until it is empty: with took by itself, else by the goroutine
// that has the turn.
func (s state) ask() (_ state, took bool) {
	s += sleeperBit
	if s.free() {
		return s&^away | taken, true
	}
	return s | event, false
}

// cover returns the turn.
// Preconditions: turn. The CQ was found empty after it was armed. resign means that the caller reads, and stops.
//
// If an event was read since, the turn stays: the arming was undone. Somebody reads afterwards; if that is the poller,
// which did not, it has to be promoted.
func (s state) cover(resign bool) (_ state, left, promote bool) {
	if s.has(event) {
		return s &^ event, false, false
	}
	promote = s.reader() == nobody || resign
	if promote {
		s = s.read(poller)
	}
	return s &^ taken, true, promote
}

// rest returns the turn of a goroutine that is likely to be back soon. It is not possible while others depend on that.
// Preconditions: turn. armed reports whether the CQ was armed and found empty. reads means that the caller reads
// events: afterwards nobody does.
func (s state) rest(armed, reads bool) (_ state, left, start bool) {
	if s.sleepers() > 0 || s.reader() == waiter && !reads {
		return s, false, false
	}
	if reads {
		s = s.read(nobody)
	}
	uncovered := !armed || s.has(event) || s.reader() == nobody
	s &^= taken | event
	if !uncovered {
		return s, true, false
	}
	start = !s.has(timing)
	if start {
		s = s&^recent | timing
	}
	return s | away, true, start
}

// pass returns the turn of a goroutine that has more to do than to poll for others: the reader has to poll next. The
// poller has to be promoted, or else the reader interrupted.
// Preconditions: turn.
func (s state) pass(resign bool) (_ state, promote bool) {
	promote = s.reader() == nobody || resign
	if promote {
		s = s.read(poller)
	}
	return s &^ (taken | event), promote
}

// look is the timer's: it takes the turn if the goroutine that was away has not been back. again means that the timer
// is to be started.
func (s state) look() (_ state, took, again bool) {
	switch {
	case !s.free() || !s.has(away):
		return s &^ (timing | recent), false, false
	case s.has(recent):
		return s &^ recent, false, true
	}
	return s&^(away|timing) | taken, true, false
}

// evict asks the poller to hand over.
func (s state) evict() (_ state, ok bool) {
	if s.reader() != poller || s.sleepers() > 0 || s.has(closed) {
		return s, false
	}
	return s.read(evicted), true
}

// handOver is the poller's reply to evict.
// Preconditions: evicted.
func (s state) handOver() state { return s.read(waiter) }

// lead makes the caller the reader, with the turn, if a goroutine that read before is away.
func (s state) lead() (_ state, ok bool) {
	if s.reader() != nobody || s.sleepers() > 0 {
		return s, false
	}
	s, ok = s.take()
	if ok {
		s = s.read(waiter)
	}
	return s, ok
}

// resign makes the poller read again. It has to be promoted.
// Preconditions: the caller reads, and does not have the turn.
func (s state) resign() state { return s.read(poller) }

// close lets nobody take the turn any more.
func (s state) close() state { return s | closed }
