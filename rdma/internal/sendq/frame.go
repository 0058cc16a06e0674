package sendq

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/fifo"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

const (
	headroom = blocks.Headroom
	headerAt = headroom - wire.HeaderLen

	// Batch is how many frames may be staged, and how many one doorbell takes, while they are held.
	Batch = 16
)

// Frame is a data frame to be sent.
type Frame[H comparable] struct {
	Held H
	// Mem is blocks.Headroom bytes, then the payload. The header is written to the end of the headroom. Mem is nil for
	// a frame without a payload, which holds no memory.
	Mem   []byte
	Addr  uint64 // of Mem, for the device
	LKey  uint32
	Tail  ibv.SGE // unless its length is 0, the payload, which is then not in Mem
	N     int32   // bytes of the payload
	off   int32   // from where the header would be: negative for a shared frame, which begins earlier
	Aux   uint32
	Flags uint8
	Alone bool // it is a whole message in Mem, to which others may be added
	Lent  bool // it holds memory that others than senders wait for: see Buffers
	Last  bool // it is the last one that holds this memory
	Soon  bool // its memory is wanted back in any case
}

// staging are the data frames that wait for credits.
type staging[H comparable] struct {
	frames fifo.Queue[Frame[H]]
	part   int        // frames of a message that is staged in part, also those that were posted
	notes  []Frame[H] // messages of one frame that wait for its end
	coming int        // notes of operations that are queued
	held   bool       // frames wait for more of them
	roomy  bool       // there is room again for several frames
	most   int        // that may be staged
}

// ended reports whether all data has been sent.
func (s *staging[H]) ended() bool { return s.frames.Len() == 0 && s.part == 0 }

// pop takes the first frame.
func (s *staging[H]) pop() Frame[H] {
	f := s.frames.Pop()
	if n := s.frames.Len(); n == 0 || n == s.room()/2 {
		s.roomy = true // for several at a time
	}
	return f
}

func (s *staging[H]) room() int {
	if s.held {
		return Batch
	}
	return s.most
}

// close ends the message that is staged in part: the notes follow.
func (s *staging[H]) close() {
	s.part = 0
	for i := range s.notes {
		s.frames.Push(s.notes[i])
		s.notes[i] = Frame[H]{}
	}
	s.notes = s.notes[:0]
}
