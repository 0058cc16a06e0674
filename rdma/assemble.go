package rdma

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// partial is a message of several frames that has begun, with readTurn. It stays in its blocks if it needs at most half
// of the window. A longer one is copied together as it comes, as soon as there is room for it: see blocks.Messages.
type partial struct {
	m     *message // nil: none has begun
	size  int      // its announced length
	room  blocks.Room
	asked bool // for room
	waits bool // its first frame stays in its block until there is room
}

// assemble adds a frame to the message that has begun, and returns the message when it is whole.
// Preconditions: the caller has readTurn, and the message that has begun does not wait for room.
func (l *link) assemble(f frame) (*message, error) {
	if f.flags&wire.FlagPacked != 0 {
		return l.split(f)
	}
	p := &l.partial
	m := p.m
	if m == nil {
		m = newMessage(l)
		if f.flags&wire.FlagMore != 0 {
			if f.aux > uint32(l.maxMessage) {
				l.giveBack(f)
				m.recycle()
				return nil, &ProtocolError{"DATA", fmt.Sprintf("a message of %d bytes", f.aux),
					fmt.Sprintf("at most %d", l.maxMessage)}
			}
			l.beginPartial(m, int(f.aux))
		}
	}
	if f.flags&wire.FlagCancel != 0 {
		l.giveBack(f)
		return nil, l.dropMessage(m, nil)
	}
	m.n += int(f.n)
	most := min(l.e.frameMost(l.recvKind), l.maxMessage)
	if p.m != nil {
		most = p.size
	}
	if m.n > most || f.flags&wire.FlagMore != 0 && (f.n == 0 || m.n == most) {
		l.giveBack(f)
		return nil, l.dropMessage(m, &ProtocolError{"DATA", fmt.Sprintf("%d bytes of a message", m.n),
			fmt.Sprintf("at most %d, and the last of them without MORE", most)})
	}
	if m.buf != nil {
		m.buf = append(m.buf, f.bytes()...)
		l.giveBack(f)
	} else {
		m.frames = append(m.frames, f)
	}
	if f.flags&wire.FlagMore != 0 {
		return nil, nil
	}
	if p.m != nil && m.n != p.size {
		return nil, l.dropMessage(m, &ProtocolError{"DATA", fmt.Sprintf("a message of %d bytes", m.n),
			fmt.Sprintf("the announced %d", p.size)})
	}
	l.endPartial()
	if f.flags&wire.FlagImm != 0 {
		m.imm, m.hasImm = f.aux, true
	}
	return m, nil
}

// beginPartial begins a message of several frames.
// Preconditions: the caller has readTurn.
func (l *link) beginPartial(m *message, size int) {
	p := &l.partial
	p.m, p.size = m, size
	l.mu.Lock()
	frames := min(l.e.frameMost(l.recvKind), int(l.peer.Block)) // the peer's own may be as short
	l.assembling = size <= frames*int(l.recv.Target())/2
	p.asked = !l.assembling
	l.mu.Unlock()
	if !p.asked {
		return
	}
	if p.room.Wake == nil {
		p.room.Wake, p.room.Overdue = l.wakeReader, l.overdue
	}
	if p.waits = !l.e.eng.messages.Ask(&p.room, size); !p.waits {
		m.buf = make([]byte, 0, size)
	}
}

// awaitRoom waits until there is room for the message that has begun, unless the connection is closed.
// Preconditions: the caller has readTurn.
func (l *link) awaitRoom(b bound) error {
	for l.partial.waits && !l.end.Closed() {
		if !l.e.eng.messages.Admitted(&l.partial.room) {
			if err := l.e.waitData(b, &l.readWake, nil); err != nil {
				return err
			}
			continue
		}
		l.partial.waits = false
		m := l.partial.m
		m.buf = make([]byte, 0, l.partial.size)
		m.gather()
	}
	return nil
}

// overdue ends the connection: its message is not complete in time, and others wait for the memory.
func (l *link) overdue() {
	e := l.e.eng
	err := fmt.Errorf("%w: a message was not complete in time: %w", ErrNoMemory, &ibv.LimitError{
		What: "bytes of blocks, buffers and unfinished messages", Asked: uint64(e.budget.Used()),
		Limit: uint64(e.opt.Memory), Where: "EngineOptions.Memory"})
	l.mu.Lock()
	l.reset(wire.ResetMemory, err)
	l.mu.Unlock()
	go func() { // if no reader does
		l.readTurn.Take()
		if l.partial.m != nil {
			l.dropPartial()
		}
		l.readTurn.Leave()
	}()
}

// dropMessage drops a message, whether or not it has several frames, and returns err.
// Preconditions: the caller has readTurn.
func (l *link) dropMessage(m *message, err error) error {
	l.endPartial()
	m.release()
	return err
}

// dropPartial drops the message that has begun.
// Preconditions: the caller has readTurn.
func (l *link) dropPartial() { _ = l.dropMessage(l.partial.m, nil) }

// endPartial forgets the message that has begun, if there is one.
// Preconditions: the caller has readTurn.
func (l *link) endPartial() {
	p := &l.partial
	if p.m == nil {
		return
	}
	if p.asked {
		l.e.eng.messages.Leave(&p.room)
	} else {
		l.mu.Lock()
		l.assembling = false
		l.mu.Unlock()
	}
	p.m, p.size, p.asked, p.waits = nil, 0, false, false
}
