// Package credit counts the frames that the two ends of a connection may send each other. A [Sender] is at the end that
// sends, and knows the limit: frames with a lower number may be sent. A [Receiver] is at the other end, and decides
// about the limit. Its window is the number of blocks that it has for frames that may come or were not taken.
//
// The limit normally only grows. The receiver can send a lower limit. The sender's reply comes after all frames that it
// sent before it knew, and only then are the blocks beyond the lower limit free.
//
// The types know no blocks and no frames, and have no lock: the lock of the connection guards them. Their fields are
// for reading only. Numbers of frames wrap around.
package credit

import (
	"fmt"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Sender counts the frames that are sent, and knows how many may be.
type Sender struct {
	Sent   uint32 // number of the next frame
	Limit  uint32 // frames with a lower number may be sent
	Answer bool   // a reply to a lower limit is due
	ahead  uint32 // most that a limit may be beyond Sent
}

// NewSender returns a Sender that may send limit frames. Later limits are at most ahead beyond what was sent.
func NewSender(limit, ahead uint32) Sender { return Sender{Limit: limit, ahead: ahead} }

// Left returns how many frames may be sent.
func (s *Sender) Left() uint32 {
	if !wire.Before(s.Sent, s.Limit) {
		return 0
	}
	return s.Limit - s.Sent
}

// Next counts a frame as sent, and returns its number. One may be sent.
func (s *Sender) Next() uint32 {
	s.Sent++
	return s.Sent - 1
}

// Check returns the limits that the peer may send, as in "at most 5", or "" if limit is one of them. If lower is true,
// it may be lower than the last one, but not so low that the limit could wrap around by many such steps.
func (s *Sender) Check(limit uint32, lower bool) string {
	switch {
	case wire.Before(s.Sent+s.ahead, limit):
		return fmt.Sprintf("at most %d", s.Sent+s.ahead)
	case !wire.Before(limit, s.Limit):
		return ""
	case lower && !wire.Before(limit, s.Limit-s.ahead) && !wire.Before(limit, s.Sent-s.ahead):
		return ""
	}
	return fmt.Sprintf("%d or more", s.Limit)
}

// Raise handles a limit of the peer, and reports whether it is higher than before. A lower one has no effect.
func (s *Sender) Raise(limit uint32) bool {
	higher := wire.Before(s.Limit, limit)
	if higher {
		s.Limit = limit
	}
	return higher
}

// Lower handles a limit that may be lower. A reply is due.
func (s *Sender) Lower(limit uint32) { s.Limit, s.Answer = limit, true }

// Answered notes that the reply is sent.
func (s *Sender) Answered() { s.Answer = false }
