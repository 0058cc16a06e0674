package rdma

import "errors"

// liveness decides when a connection asks the peer's adapter whether it is there, and when that one takes nothing.
// Times are ticks of a shard. link.mu guards it.
type liveness struct {
	every  uint32 // KeepAlive; 0: never
	frame  uint32 // when a frame was received last, or a PING was sent
	data   uint32 // when a data frame was received last
	took   uint32 // when the peer took something last: see link.taken
	acked  uint32 // when the adapter acknowledged something last, or had nothing to acknowledge, or a PING was sent
	asked  uint32 // when the first PING was sent of those since then
	asking bool   // since then nothing was acknowledged
}

const (
	// idleTicks is after how many ticks without a data frame a connection is idle.
	idleTicks = 2

	// stuckAfter is for how many times KeepAlive, and at least how many ticks, PINGs may be under way. RC does not give
	// up while the peer's adapter replies that it has no receive, and it never learns of a lost completion.
	stuckAfter = 4
	stuckLeast = 5
)

var errSilent = errors.New("its adapter acknowledges nothing: it has no receive for what was sent, or is out of reach")

// verdict is the result of a tick.
type verdict uint8

const (
	verdictWait verdict = iota
	verdictAsk          // ask the peer's adapter, or the canary
	verdictStuck
)

// begin is the time when the connection begins.
func (a *liveness) begin(now uint32) { a.frame, a.data, a.took, a.acked = now, now, now, now }

// idle reports whether there was no data frame for a while.
func (a *liveness) idle(now uint32) bool { return now-a.data >= idleTicks }

// quiet reports whether there was no frame in this tick and in the last one.
func (a *liveness) quiet(now uint32) bool { return now-a.frame > 1 }

// confirmed is called when the peer's adapter has acknowledged something; took reports whether nothing waits for the
// peer's program.
func (a *liveness) confirmed(now uint32, took bool) {
	a.acked, a.asking = now, false
	if took {
		a.took = now
	}
}

// beat is called each tick. under reports whether anything is under way. If it returns verdictAsk, a PING is to be
// sent: the completion of one may be lost, so there are several. Frames of the peer do not show that it takes any.
func (a *liveness) beat(now uint32, under bool) verdict {
	if !under {
		a.acked = now
	}
	switch {
	case a.every == 0:
	case a.asking && now-a.asked >= max(stuckAfter*a.every, stuckLeast):
		return verdictStuck
	case now-a.frame >= a.every, now-a.acked >= a.every:
		if !a.asking {
			a.asking, a.asked = true, now
		}
		a.frame, a.acked = now, now
		return verdictAsk
	}
	return verdictWait
}
