package wire

import "fmt"

// Watch watches for the end of the connection while no step reads from it, and calls gone once when the peer closes it
// or it breaks, or when a peer that sends heartbeats is silent for the timeout, or was interrupted. It gives
// up when the peer sends something: then the peer has come to the next step, and spoke is
// called. The function that Watch returns ends the watch and must be called before the next step.
func (w *Conn) Watch(gone func(error), spoke func()) (stop func()) {
	if w == nil {
		return func() {}
	}
	if w.pulse.on {
		return w.watchMarks(gone, spoke)
	}
	if v, ok := w.c.(interface{ Watch(func()) (stop func()) }); ok {
		return v.Watch(func() { gone(w.leftEarly(nil)) })
	}
	return w.watchSocket(gone, spoke)
}

// leftEarly returns the error of a connection that is over, with its cause if the peer did not close it.
func (w *Conn) leftEarly(cause error) error {
	if cause != nil && isDead(cause) {
		return w.fail("watch", w.explain(cause, w.timeout, 0, 0))
	}
	return w.fail("watch", fmt.Errorf("%w in the middle of the run", ErrClosed))
}
