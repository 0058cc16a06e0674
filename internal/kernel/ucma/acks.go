package ucma

import "sync"

// events counts the events of an object that were acknowledged; acks guards it.
type events uint32

// acks has those who wait for events to be acknowledged.
type acks struct {
	mu   sync.Mutex
	more sync.Cond
}

// read calls f, which reads and processes an event. reading counts such calls on a channel; a guards it.
func (a *acks) read(reading *int, f func() error) error {
	a.mu.Lock()
	*reading++
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		*reading--
		a.more.Broadcast()
	}()
	return f()
}

// add counts an event of objects.
func (a *acks) add(counters ...*events) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range counters {
		*n++
	}
	a.more.Broadcast()
}

// settle waits until the events of an object that the kernel has reported on a channel are acknowledged. It does not
// wait for more than those that goroutines are reading now, whatever the kernel has counted.
func (a *acks) settle(done *events, reported uint32, reading *int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for uint32(*done) < reported && *reading > 0 {
		a.more.Wait()
	}
}
