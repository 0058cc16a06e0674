package progress

import (
	"sync/atomic"

	"github.com/pureverbs/pureverbs/rdma/internal/turn"
)

// Signal wakes the one goroutine that waits for it. A signal that comes early is kept, and several are one. One
// goroutine at a time waits; any number wake it. It must not be copied.
type Signal struct {
	p     *Progress
	state atomic.Uint32
	ch    chan struct{} // has room for one; made by the first wait, written by the Wake that found it parked
}

// The states of a Signal.
const (
	idle    uint32 = iota
	token          // it was woken, and nobody has taken that
	parked         // a goroutine waits for ch
	reading        // a goroutine waits in ReadEvents
)

// Init makes a signal ready for use with p.
func (s *Signal) Init(p *Progress) { s.p = p }

// Wake wakes the goroutine that waits, or the next one that does.
func (s *Signal) Wake() {
	if s.state.Load() == token {
		return
	}
	switch s.state.Swap(token) {
	case parked:
		s.ch <- struct{}{}
	case reading:
		s.p.src.Interrupt()
	}
}

// Take takes a signal that is there, and reports whether there was one.
func (s *Signal) Take() bool { return s.state.Load() == token && s.state.CompareAndSwap(token, idle) }

// wait waits until there is a signal, and takes it.
func (s *Signal) wait(b turn.Bound) error {
	if s.ch == nil {
		s.ch = make(chan struct{}, 1)
	}
	if !s.state.CompareAndSwap(idle, parked) {
		s.state.Store(idle) // only Wake changes it, to token
		return nil
	}
	err := b.Wait(s.ch)
	if err == nil {
		s.state.Store(idle)
		return nil
	}
	if s.state.CompareAndSwap(parked, idle) {
		return err
	}
	<-s.ch
	s.state.Store(idle)
	return nil
}

// startReading reports whether the caller may wait in ReadEvents: there is no signal.
func (s *Signal) startReading() bool { return s.state.CompareAndSwap(idle, reading) }

// stopReading ends startReading. A signal that has come stays.
func (s *Signal) stopReading() { s.state.CompareAndSwap(reading, idle) }
