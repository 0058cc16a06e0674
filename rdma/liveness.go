package rdma

// liveness decides when an idle connection asks the peer's adapter whether it is there, and when the device has lost
// the completion. Times are ticks of a shard. link.mu guards it.
type liveness struct {
	every  uint32 // KeepAlive; 0: never
	frame  uint32 // when a frame was received last, or the PING was sent
	data   uint32 // when a data frame was received last
	asked  uint32 // when the PING was sent
	asking bool   // a PING has not completed
}

const (
	// idleTicks is after how many ticks without a data frame a connection is idle.
	idleTicks = 2

	// stuckAfter is for how many times KeepAlive, and at least how many ticks, a PING may be under way.
	// RC gives up earlier: after that nothing completes any more.
	stuckAfter = 4
	stuckLeast = 5
)

// verdict is the result of a tick.
type verdict uint8

const (
	verdictWait verdict = iota
	verdictAsk          // ask the peer's adapter, or the canary
	verdictStuck
)

// begin is the time when the connection begins.
func (a *liveness) begin(now uint32) { a.frame, a.data = now, now }

// idle reports whether there was no data frame for a while.
func (a *liveness) idle(now uint32) bool { return now-a.data >= idleTicks }

// quiet reports whether there was no frame in this tick and in the last one.
func (a *liveness) quiet(now uint32) bool { return now-a.frame > 1 }

// beat is called each tick. If it returns verdictAsk, a PING is to be sent.
func (a *liveness) beat(now uint32) verdict {
	switch {
	case a.every == 0:
	case a.asking:
		if now-a.asked >= max(stuckAfter*a.every, stuckLeast) {
			return verdictStuck
		}
	case now-a.frame >= a.every:
		a.frame, a.asked, a.asking = now, now, true
		return verdictAsk
	}
	return verdictWait
}
