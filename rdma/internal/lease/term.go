package lease

import "time"

// State is the state of a lease at its owner.
//
//	Opening ── Begin ──> Live ── Revoke ──> Revoking ── End ──> Ending ── Ended ──> Ended
//	   └── given up ─────────┴────────── End ──────────^
type State uint8

const (
	Opening  State = iota // the peer does not know of it
	Live                  // the peer may access the memory
	Revoking              // the peer was asked to stop
	Ending                // the memory is being taken from it
	Ended
)

// Term is a lease at its owner.
type Term struct {
	State  State
	Ends   time.Time
	Cause  error // why it ended, nil if the peer returned it unasked
	Forced bool  // the peer did not return it in time
	queued bool  // an EXTEND is queued
}

// Begin makes the lease live until ends.
func (t *Term) Begin(ends time.Time) { t.State, t.Ends = Live, ends }

// Extend moves the end of a live lease. tell reports whether an EXTEND is to be queued: if one is, that has the new end
// when it is sent.
func (t *Term) Extend(ends time.Time) (tell bool) {
	tell = !t.queued
	t.Ends, t.queued = ends, true
	return tell
}

// Told returns how long the lease still lasts, for the EXTEND that is sent now. It is at least 1 ms.
func (t *Term) Told(now time.Time) time.Duration {
	t.queued = false
	return max(t.Ends.Sub(now), time.Millisecond)
}

// Expired reports whether a live lease has come to its end.
func (t *Term) Expired(now time.Time) bool { return t.State == Live && !now.Before(t.Ends) }

// Revoke asks a live lease to end, and reports whether the peer is to be asked.
func (t *Term) Revoke(cause error) bool {
	if t.State != Live {
		return false
	}
	t.State, t.Cause = Revoking, cause
	return true
}

// End reports whether the memory is to be taken from the peer now: it has begun, and is not being taken yet.
func (t *Term) End() bool {
	if t.State != Live && t.State != Revoking {
		return false
	}
	t.State = Ending
	return true
}

// Use is a region at its holder: it is returned when it has ended and none of its operations is under way.
type Use struct {
	Cause error // why it has ended, or nil
	under int   // operations that are queued or under way
}

// Begin counts an operation. The region has not ended.
func (u *Use) Begin() { u.under++ }

// Done counts an operation as ended, and reports whether the region is to be returned.
func (u *Use) Done() bool {
	u.under--
	return u.under == 0 && u.Cause != nil
}

// End ends the region, and reports whether it was the first to do so. It counts as an operation, so that nothing is
// returned before the caller's Done.
func (u *Use) End(cause error) bool {
	if u.Cause != nil {
		return false
	}
	u.Cause = cause
	u.under++
	return true
}
