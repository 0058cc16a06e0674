package ibv

import "sync"

// rest records whether the device has reported the last receive of a QP with an SRQ, or a failure of either.
type rest struct {
	mu   sync.Mutex
	last bool          // the last receive
	err  error         // the failure
	ch   chan struct{} // closed when either is there; nil if no goroutine waits
}

// note records the last receive or, with an error, a failure.
func (r *rest) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.told() && r.ch != nil {
		close(r.ch)
	}
	if err == nil {
		r.last = true
	} else if r.err == nil {
		r.err = err
	}
}

// Preconditions: mu is held.
func (r *rest) told() bool { return r.last || r.err != nil }

// outcome returns nil after the last receive, else the failure.
func (r *rest) outcome() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last {
		return nil
	}
	return r.err
}

// failed returns the failure, nil for none.
func (r *rest) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// forget begins anew: the QP was reset.
func (r *rest) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told() {
		r.last, r.ch, r.err = false, nil, nil
	}
}

// await returns a channel that is closed when the device has reported it.
func (r *rest) await() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ch == nil {
		r.ch = make(chan struct{})
		if r.told() {
			close(r.ch)
		}
	}
	return r.ch
}
