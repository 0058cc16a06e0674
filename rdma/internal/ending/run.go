package ending

import (
	"sync"
	"time"
)

// Most is the longest that a device may take to report that a QP has come to rest.
const Most = time.Second

// Steps are the steps of the end of a connection that its owner takes.
type Steps interface {
	// Await waits for ch, for a device that is gone, or for this time. It reports whether ch was closed.
	Await(ch <-chan struct{}, most time.Duration) bool
	// Resetting returns what is closed when a RESET has been sent, or nil if there is none.
	Resetting() <-chan struct{}
	// Rest moves the QP to ERR and waits, for a bounded time, until it takes no more receives.
	Rest()
	// Mark posts the marker, and calls State.Mark. It reports whether it could.
	Mark() bool
	// Forget makes later completions with the QP's number those of another connection.
	Forget()
	// CloseQP closes the QP. drained reports whether the marker has completed.
	CloseQP(drained bool) error
	// Drain returns what the connection still has. If err is not nil, the QP could not be closed, and the device may
	// still use what is under way. The lock is held.
	Drain(err error)
	// Over is called when Done is closed.
	Over()
}

// Run ends a connection in the order that loses no block. Receives of the QP that were taken from the SRQ complete
// before its last event, and that is before the marker. mu guards s.
func (s *State) Run(mu sync.Locker, steps Steps) {
	if reset := steps.Resetting(); reset != nil {
		steps.Await(reset, Most)
	}
	steps.Rest()
	drained := steps.Mark() && steps.Await(s.marker.Done(), Most)
	steps.Forget() // before another QP can have the number
	err := steps.CloseQP(drained)
	mu.Lock()
	s.drain(err)
	steps.Drain(err)
	mu.Unlock()
	s.done.Happen()
	steps.Over()
}
