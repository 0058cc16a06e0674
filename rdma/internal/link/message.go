package link

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/leak"
)

// Handle is a program's use of a message. It is not safe for concurrent use.
type Handle struct {
	m   *Message
	gen uint64 // of m's uses
}

// Message is a message that has arrived, in blocks of the engine, unless it is long. Later messages use it again.
type Message struct {
	gen    atomic.Uint64 // counts uses: a handle with another number was released
	l      *Link
	frames []frame // as they came
	Buf    []byte  // gathered
	N      int
	Imm    uint32
	HasImm bool

	opened   *leak.Record // with leak.Hot
	released string       // the place, with leak.Hot; m is not used again then
}

var messages = sync.Pool{New: func() any { return new(Message) }}

// NewMessage returns an empty message of l, for what has arrived.
func NewMessage(l *Link) *Message {
	m := messages.Get().(*Message)
	m.l = l
	return m
}

// HandOut returns a handle for the program.
func (m *Message) HandOut() Handle {
	if leak.Hot() {
		m.opened = leak.Track("message of " + m.l.Remote.String())
		leak.Watch(m, m.opened)
	}
	return Handle{m, m.gen.Load()}
}

// Valid reports whether h refers to a message that was not released.
func (h *Handle) Valid() bool { return h.m != nil && h.m.gen.Load() == h.gen }

// Get returns what h refers to.
func (h *Handle) Get() *Message {
	if !h.Valid() {
		h.stale()
	}
	return h.m
}

// stale panics.
func (h *Handle) stale() {
	place := ""
	if h.m != nil {
		place = h.m.released
	}
	panic("rdma: the message was released" + leak.FirstAt(place))
}

// Bytes returns the message in one piece.
func (m *Message) Bytes() []byte {
	switch {
	case m.Buf == nil && len(m.frames) == 1:
		f := &m.frames[0]
		return f.Bytes()
	case m.Buf == nil:
		m.Detach()
	}
	return m.Buf
}

// Detach copies the message out of its blocks, and gives them back.
func (m *Message) Detach() {
	m.Buf = make([]byte, 0, m.N)
	m.gather()
}

// gather copies what has come of the message out of its blocks to buf, and gives them back.
func (m *Message) gather() {
	for _, f := range m.frames {
		m.Buf = append(m.Buf, f.Bytes()...)
	}
	m.free()
}

// Blocks returns the parts of the message in memory.
func (m *Message) Blocks() net.Buffers {
	if m.Buf != nil {
		return net.Buffers{m.Buf}
	}
	list := make(net.Buffers, len(m.frames))
	for i, f := range m.frames {
		list[i] = f.Bytes()
	}
	return list
}

// Release gives the memory of the message back.
func (m *Message) Release() {
	m.free()
	m.recycle()
}

// free gives the blocks back.
func (m *Message) free() {
	for i, f := range m.frames {
		m.l.giveBack(f)
		m.frames[i] = frame{}
	}
	m.frames = m.frames[:0]
}

func (m *Message) recycle() {
	hot := leak.Hot()
	if hot {
		m.opened.Done()
		m.released = leak.Here()
	}
	m.gen.Store(m.gen.Load() + 1)
	m.l, m.frames, m.Buf, m.N, m.Imm, m.HasImm, m.opened = nil, m.frames[:0], nil, 0, 0, false, nil
	if !hot {
		messages.Put(m)
	}
}
