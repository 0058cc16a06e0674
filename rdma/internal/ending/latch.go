package ending

import "sync/atomic"

// Latch is an event that happens once. Its channel exists only if somebody waits for it, since most connections have
// nobody who does. The zero value is one that has not happened. It is safe for concurrent use.
type Latch struct{ ch atomic.Pointer[chan struct{}] }

// happened is the channel of all latches for which nobody waited before.
var happened = func() *chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return &ch
}()

// Done returns what is closed when the event happens.
func (l *Latch) Done() <-chan struct{} {
	if ch := l.ch.Load(); ch != nil {
		return *ch
	}
	if ch := make(chan struct{}); l.ch.CompareAndSwap(nil, &ch) {
		return ch
	}
	return *l.ch.Load()
}

// Happen has the event happen. Later calls do nothing.
func (l *Latch) Happen() {
	if ch := l.ch.Swap(happened); ch != nil && ch != happened {
		close(*ch)
	}
}
