package pace

import "errors"

// Liveness decides when a connection asks the peer's adapter whether it is there, and when that one takes nothing.
// Times are ticks.
type Liveness struct {
	Every  uint32 // KeepAlive; 0: never
	Frame  uint32 // when a frame was received last, or a PING was sent
	Data   uint32 // when a data frame was received last
	Took   uint32 // when the peer took something last
	acked  uint32 // when the adapter acknowledged something last, or had nothing to acknowledge, or a PING was sent
	asked  uint32 // when the first PING was sent of those since then
	Asking bool   // since then nothing was acknowledged
}

const (
	// IdleTicks is after how many ticks without a data frame a connection is idle.
	IdleTicks = 2

	// StuckAfter is for how many times KeepAlive, and at least how many ticks, PINGs may be under way. RC does not give
	// up while the peer's adapter replies that it has no receive, and it never learns of a lost completion.
	StuckAfter = 4
	stuckLeast = 5
)

// ErrSilent is why a connection ends that is stuck.
var ErrSilent = errors.New("its adapter acknowledges nothing: it has no receive for what was sent, or is out of reach")

// Verdict is the result of a tick.
type Verdict uint8

const (
	Wait Verdict = iota
	Ask          // ask the peer's adapter, or the canary
	Stuck
)

// Begin is the time when the connection begins.
func (a *Liveness) Begin(now uint32) { a.Frame, a.Data, a.Took, a.acked = now, now, now, now }

// Idle reports whether there was no data frame for a while.
func (a *Liveness) Idle(now uint32) bool { return now-a.Data >= IdleTicks }

// Quiet reports whether there was no frame in this tick and in the last one.
func (a *Liveness) Quiet(now uint32) bool { return now-a.Frame > 1 }

// Confirmed is called when the peer's adapter has acknowledged something; took reports whether nothing waits for the
// peer's program.
func (a *Liveness) Confirmed(now uint32, took bool) {
	a.acked, a.Asking = now, false
	if took {
		a.Took = now
	}
}

// Beat is called each tick. under reports whether anything is under way. If it returns Ask, a PING is to be
// sent: the completion of one may be lost, so there are several. Frames of the peer do not show that it takes any.
func (a *Liveness) Beat(now uint32, under bool) Verdict {
	if !under {
		a.acked = now
	}
	switch {
	case a.Every == 0:
	case a.Asking && now-a.asked >= max(StuckAfter*a.Every, stuckLeast):
		return Stuck
	case now-a.Frame >= a.Every, now-a.acked >= a.Every:
		if !a.Asking {
			a.Asking, a.asked = true, now
		}
		a.Frame, a.acked = now, now
		return Ask
	}
	return Wait
}
