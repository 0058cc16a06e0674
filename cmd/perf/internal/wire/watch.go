package wire

import "fmt"

// Watch watches for the end of the connection while no step reads from it, and calls gone once when the peer closes it
// or it breaks. It gives up when the peer sends something: then the peer has come to the next step, and spoke is
// called. The function that Watch returns ends the watch and must be called before the next step.
func (w *Conn) Watch(gone func(error), spoke func()) (stop func()) {
	if v, ok := w.c.(interface{ Watch(func()) (stop func()) }); ok {
		return v.Watch(func() { gone(w.leftEarly()) })
	}
	return w.watchSocket(gone, spoke)
}

func (w *Conn) leftEarly() error {
	return w.fail("watch", fmt.Errorf("%w in the middle of the run", ErrClosed))
}
