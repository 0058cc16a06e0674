// Package ending decides how a connection ends: what is sent last, when the connection is given up, why, and when
// nothing can come any more. It knows no device. The owner's lock guards a State; an Allowance has its own.
package ending

import (
	"sync/atomic"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Do is a set of steps that the owner of a State takes after a transition.
type Do uint16

// The owner takes them in this order.
const (
	DropInput  Do = 1 << iota // drop what was received and not read
	DropStaged                // drop what is staged
	StopOps                   // end what waits for remote memory
	WakeReader
	WakeWriter
	FIN      // a FIN with FINAux follows what is staged; a second one may say more
	Reset    // a RESET with this aux is sent before all else, and no FIN
	Pump     // post what is due
	Linger   // call Fail after a while; given once
	Teardown // call Run on a goroutine of its own; given once
)

// State is the end of one connection. The owner's lock guards it, except for Closed and the latches. Work requests
// have numbers that wrap around.
type State struct {
	closed atomic.Bool // by Close or CloseNow

	// The owner reads the fields with names in capitals, and changes none.

	// This side.
	ReadShut  bool // it reads no more: later data is dropped
	WriteShut bool // it has ended sending: a FIN follows

	// The peer.
	PeerFIN    bool // it sends no more data
	PeerClosed bool // it has closed the connection, and reads no more; without PeerFIN its data may still come
	peerLast   bool // both were said by one FIN

	// The end.
	Ending    bool // the connection has ended, or is about to: nothing more is sent
	Drained   bool // nothing can come any more
	Delivered bool // after Close: the peer's adapter has all that was sent, and this side's FIN
	weak      bool // a later cause may say more
	marking   bool
	marks     int8 // completions of the marker that are to come
	left      int8 // of Teardown and the owner's Close, those that have not finished
	markerWR  uint32
	reset     uint32 // its reason
	Cause     error  // why the connection has ended
	CloseErr  error  // why the QP could not be closed: the device may then still use memory

	settled, marker, done, gone Latch
}

// Init makes s the state of a connection that has begun.
func (s *State) Init() { s.left = 2 }

// Closed reports whether this side has closed the connection. It needs no lock.
func (s *State) Closed() bool { return s.closed.Load() }

// Settled is closed when all that was accepted is delivered after a Close, or never will be.
func (s *State) Settled() <-chan struct{} { return s.settled.Done() }

// Done is closed when the connection has ended.
func (s *State) Done() <-chan struct{} { return s.done.Done() }

// Gone is closed when the owner has forgotten the connection.
func (s *State) Gone() <-chan struct{} { return s.gone.Done() }

// ShutRead ends reading.
func (s *State) ShutRead() Do {
	s.ReadShut = true
	return DropInput | Pump | WakeReader
}

// CloseWrite ends sending: a FIN follows what is staged.
func (s *State) CloseWrite() Do {
	if s.WriteShut || s.Ending {
		return 0
	}
	s.WriteShut = true
	return FIN | Pump | WakeWriter
}

// Close closes the connection when the peer's adapter has all that was accepted. A second call does nothing.
func (s *State) Close() Do {
	do := s.shut()
	if do == 0 || s.Ending {
		return do
	}
	s.WriteShut = true
	if s.PeerClosed {
		do |= DropStaged
	}
	return do | FIN | Pump | Linger
}

// CloseNow is Close, but drops what was not sent, and informs the peer by a RESET with this reason. Fail follows.
func (s *State) CloseNow(reason uint32) Do {
	do := s.shut()
	if s.Ending {
		return do
	}
	return do | s.Break(reason)
}

func (s *State) shut() Do {
	if s.closed.Swap(true) {
		return 0
	}
	s.ReadShut = true
	return DropInput | StopOps | WakeReader | WakeWriter
}

// Break has a RESET sent in place of what is staged. Fail follows.
func (s *State) Break(reason uint32) Do {
	if s.Ending {
		return 0
	}
	s.reset = reason
	return DropStaged | Reset | Pump
}

// PeerFINCame handles the peer's FIN.
func (s *State) PeerFINCame(aux uint32) Do {
	s.PeerFIN = true
	if aux&wire.FINClosed == 0 {
		return 0
	}
	s.peerLast = true
	return s.PeerPinged(aux)
}

// PeerPinged handles a PING of the peer, which may say that the peer has closed the connection before its FIN does.
func (s *State) PeerPinged(aux uint32) Do {
	if aux&wire.FINClosed == 0 || s.PeerClosed {
		return 0
	}
	s.PeerClosed = true
	return DropStaged | StopOps | WakeWriter
}

// MayFIN reports whether a FIN with this aux may come from the peer.
func (s *State) MayFIN(aux uint32) bool {
	return !s.PeerFIN || !s.peerLast && aux&wire.FINClosed != 0
}

// FINAux returns aux of a FIN or a PING that is sent.
func (s *State) FINAux() uint32 {
	if s.Closed() {
		return wire.FINClosed
	}
	return 0
}

// ResetAux returns aux of the RESET that is due.
func (s *State) ResetAux() uint32 { return s.reset }

// FINArrived notes that the last FIN is in the memory of the peer's adapter, and so is all that was sent before. own is
// the cause of an end by Close.
func (s *State) FINArrived(own error) Do {
	if !s.Closed() {
		return 0
	}
	s.Delivered = true
	s.settled.Happen()
	return s.Fail(own, false)
}

// Fail ends the connection; err is why. The first cause counts, unless it is weak: it says only that work requests were
// flushed, and a cause that comes until Drain replaces it.
func (s *State) Fail(err error, weak bool) Do {
	if s.Ending {
		if s.weak && !weak && !s.Drained {
			s.Cause, s.weak = err, false
		}
		return 0
	}
	s.Ending, s.Cause, s.weak = true, err, weak
	return StopOps | WakeWriter | Teardown
}

// Mark notes that work request wr is the marker, which completes after all others: n times, in n queues.
func (s *State) Mark(wr uint32, n int) { s.marking, s.markerWR, s.marks = true, wr, int8(n) }

// IsMarker notes a completion of wr. It reports whether wr is the marker, and has now completed in all queues.
func (s *State) IsMarker(wr uint32) bool {
	if !s.marking || wr != s.markerWR {
		return false
	}
	if s.marks--; s.marks > 0 {
		return false
	}
	s.marker.Happen()
	return true
}

// Marked notes that all work requests have completed, without a marker.
func (s *State) Marked() {
	s.marking = false
	s.marker.Happen()
}

// drain notes that nothing can come any more; err is why the QP could not be closed.
func (s *State) drain(err error) {
	s.Drained, s.CloseErr = true, err
	s.settled.Happen()
}

// Leave notes that Teardown, or the owner's Close, has finished, and reports whether it was the last of the two. The
// owner then forgets the connection, and calls Forgotten.
func (s *State) Leave() (last bool) {
	s.left--
	return s.left == 0
}

// Forgotten notes that the owner knows the connection no more.
func (s *State) Forgotten() { s.gone.Happen() }
