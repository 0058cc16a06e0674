package rdma

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/leak"
)

// Message is a message that has arrived. Its bytes are in blocks of the engine, unless it is long: until Release they
// count against what the peer may send. Short messages may share a block, which goes back with the last of them.
//
// It belongs to the caller, and is not safe for concurrent use. Its methods panic after Release.
type Message struct {
	m   *message
	gen uint64 // of m's uses
}

// message has the state of a Message. Later messages use it again.
type message struct {
	gen    atomic.Uint64 // counts uses: a Message with another number was released
	l      *link
	frames []frame // as they came
	buf    []byte  // gathered
	n      int
	imm    uint32
	hasImm bool

	opened   *leak.Record // with leak.Hot
	released string       // the place, with leak.Hot; m is not used again then
}

var messages = sync.Pool{New: func() any { return new(message) }}

func newMessage(l *link) *message {
	m := messages.Get().(*message)
	m.l = l
	return m
}

// handle returns the Message for the program. The methods that return a *Message are small enough to be inlined, so
// that it usually is on the caller's stack.
func (m *message) handle() Message {
	if leak.Hot() {
		m.opened = leak.Track("message of " + m.l.remote.String())
		watch(m, m.opened)
	}
	return Message{m, m.gen.Load()}
}

// valid reports whether the message was not released.
func (h *Message) valid() bool { return h.m != nil && h.m.gen.Load() == h.gen }

func (h *Message) get() *message {
	if !h.valid() {
		h.stale()
	}
	return h.m
}

// stale panics.
func (h *Message) stale() {
	place := ""
	if h.m != nil {
		place = h.m.released
	}
	panic("rdma: the message was released" + leak.FirstAt(place))
}

// Len returns the length of the message in bytes.
func (m *Message) Len() int { return m.get().n }

// Bytes returns the message in one piece, which is valid until Release. A message of several blocks
// is copied together first.
func (m *Message) Bytes() []byte { return m.get().bytes() }

func (m *message) bytes() []byte {
	switch {
	case m.buf == nil && len(m.frames) == 1:
		f := &m.frames[0]
		return f.bytes()
	case m.buf == nil:
		m.buf = make([]byte, 0, m.n)
		m.gather()
	}
	return m.buf
}

// gather copies the message out of its blocks to buf, and gives them back.
func (m *message) gather() {
	for _, f := range m.frames {
		m.buf = append(m.buf, f.bytes()...)
	}
	m.free()
}

// Blocks returns the parts of the message in memory, without copying. It is valid until Release or Bytes.
func (m *Message) Blocks() net.Buffers {
	in := m.get()
	if in.buf != nil {
		return net.Buffers{in.buf}
	}
	list := make(net.Buffers, len(in.frames))
	for i, f := range in.frames {
		list[i] = f.bytes()
	}
	return list
}

// Imm returns the number that the message was sent with, and reports whether there is one.
func (m *Message) Imm() (uint32, bool) {
	in := m.get()
	return in.imm, in.hasImm
}

// Release gives the memory of the message back. The message must not be used any more: a second Release panics.
func (m *Message) Release() { m.get().release() }

func (m *message) release() {
	m.free()
	m.recycle()
}

// free gives the blocks back.
func (m *message) free() {
	for i, f := range m.frames {
		m.l.giveBack(f)
		m.frames[i] = frame{}
	}
	m.frames = m.frames[:0]
}

func (m *message) recycle() {
	hot := leak.Hot()
	if hot {
		m.opened.Done()
		m.released = leak.Here()
	}
	m.gen.Store(m.gen.Load() + 1)
	m.l, m.frames, m.buf, m.n, m.imm, m.hasImm, m.opened = nil, m.frames[:0], nil, 0, 0, false, nil
	if !hot {
		messages.Put(m)
	}
}
