package rdma

import (
	"net"

	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// Message is a message that has arrived. Its bytes are in blocks of the engine, unless it is long: until Release they
// count against what the peer may send. Short messages may share a block, which goes back with the last of them.
//
// It belongs to the caller, and is not safe for concurrent use. Its methods panic after Release.
type Message struct{ h link.Handle }

// messageOf returns the Message for the program. The methods that return a *Message are small enough to be inlined, so
// that it usually is on the caller's stack.
func messageOf(m *link.Message) Message { return Message{m.HandOut()} }

// Len returns the length of the message in bytes.
func (m *Message) Len() int { return m.h.Get().N }

// Bytes returns the message in one piece, which is valid until Release. A message of several blocks
// is copied together first.
func (m *Message) Bytes() []byte { return m.h.Get().Bytes() }

// Blocks returns the parts of the message in memory, without copying. It is valid until Release or Bytes.
func (m *Message) Blocks() net.Buffers { return m.h.Get().Blocks() }

// Imm returns the number that the message was sent with, and reports whether there is one.
func (m *Message) Imm() (uint32, bool) {
	in := m.h.Get()
	return in.Imm, in.HasImm
}

// Release gives the memory of the message back. The message must not be used any more: a second Release panics.
func (m *Message) Release() { m.h.Get().Release() }
