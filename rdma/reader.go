package rdma

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// reader is the state of the goroutine that reads from a link, one at a time: the one that has the turn.
type reader struct {
	l       *link
	turn    turn.Turn
	wake    progress.Signal
	partial partial
	current frame // what it has begun
	dialog  dialog
}

// begin makes rd.current a frame with data, and waits for one.
// Preconditions: the caller has rd.turn.
func (rd *reader) begin(b bound) error {
	for rd.current.n == 0 {
		if rd.current.b != nil {
			rd.finish()
		}
		f, err := rd.nextFrame(b)
		if err != nil {
			return err
		}
		rd.current = f
	}
	return nil
}

// nextFrame takes the next data frame, and waits for one.
// Preconditions: the caller has rd.turn.
func (rd *reader) nextFrame(b bound) (frame, error) {
	l := rd.l
	for {
		l.mu.Lock()
		switch {
		case l.end.ReadShut():
			err := error(io.EOF)
			if l.end.Closed() {
				err = ErrClosed
			}
			l.mu.Unlock()
			return frame{}, err
		case l.in.Len() > 0:
			f := l.in.Pop()
			l.mu.Unlock()
			return f, nil
		case l.end.PeerFIN():
			l.mu.Unlock()
			return frame{}, io.EOF
		case l.end.Drained():
			err := l.reason()
			l.mu.Unlock()
			return frame{}, err
		}
		p := rd.dialog.next(l.send.Sent())
		l.mu.Unlock()
		if err := l.e.waitData(b, &rd.wake, p); err != nil {
			return frame{}, err
		}
	}
}

// finish gives rd.current back.
// Preconditions: the caller has rd.turn.
func (rd *reader) finish() {
	f := rd.current
	rd.current = frame{}
	rd.l.giveBack(f)
}

// more makes rd.current the next frame, if one has arrived.
// Preconditions: the caller has rd.turn, and rd.current is empty.
func (rd *reader) more() bool {
	l := rd.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.in.Len() == 0 || l.end.ReadShut() {
		return false
	}
	rd.current = l.in.Pop()
	return true
}

// takeFrame takes what is left of the frame that a reader has begun, or waits for the next.
func (l *link) takeFrame(b bound) (frame, error) {
	if err := l.rd.turn.Enter(b); err != nil {
		return frame{}, err
	}
	defer l.rd.turn.Leave()
	if err := l.rd.begin(b); err != nil {
		return frame{}, err
	}
	f := l.rd.current
	l.rd.current = frame{}
	return f, nil
}

func (rd *reader) recvMessage(b bound) (*message, error) {
	l := rd.l
	if err := rd.turn.Enter(b); err != nil {
		return nil, err
	}
	defer rd.turn.Leave()
	for {
		if rd.current.b != nil && !l.end.Closed() {
			return rd.unpack(), nil
		}
		err := rd.awaitRoom(b)
		var f frame
		if err == nil {
			f, err = rd.nextFrame(b)
		}
		if err != nil {
			if rd.partial.m != nil && (err == io.EOF || !isWait(err)) {
				rd.dropPartial()
				if err == io.EOF {
					err = &ProtocolError{Frame: "FIN", Got: "one within a message", Want: "the rest of the message"}
				}
			}
			return nil, err
		}
		m, err := rd.assemble(f)
		if err != nil {
			l.mu.Lock()
			l.broken(err)
			l.mu.Unlock()
			return nil, err
		}
		if m != nil {
			return m, nil
		}
	}
}

// isWait reports whether an error ended a wait, and not the connection.
func isWait(err error) bool {
	return err == errWouldWait || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// giveBack gives the block and the credit of a frame back.
func (l *link) giveBack(f frame) {
	if f.flags&wire.FlagPacked != 0 && f.b.Holders.Add(-1) > 0 {
		return
	}
	l.e.consumed(f.b)
	l.mu.Lock()
	l.win.took(1)
	if l.win.recv.Due() {
		l.pump()
	}
	l.mu.Unlock()
}

// dropCurrent drops the frame that a reader has begun. Readers no longer begin another.
func (rd *reader) dropCurrent() {
	rd.turn.Take()
	if rd.partial.m != nil {
		rd.dropPartial()
	}
	if rd.current.b != nil {
		rd.finish()
	}
	rd.turn.Leave()
	rd.l.leave()
}

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
// Preconditions: the caller has rd.turn, and the message that has begun does not wait for room.
func (rd *reader) assemble(f frame) (*message, error) {
	l := rd.l
	if f.flags&wire.FlagPacked != 0 {
		return rd.split(f)
	}
	p := &rd.partial
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
			rd.beginPartial(m, int(f.aux))
		}
	}
	if f.flags&wire.FlagCancel != 0 {
		l.giveBack(f)
		return nil, rd.dropMessage(m, nil)
	}
	m.n += int(f.n)
	most := min(l.e.frameMost(l.win.kind), l.maxMessage)
	if p.m != nil {
		most = p.size
	}
	if m.n > most || f.flags&wire.FlagMore != 0 && (f.n == 0 || m.n == most) {
		l.giveBack(f)
		return nil, rd.dropMessage(m, &ProtocolError{"DATA", fmt.Sprintf("%d bytes of a message", m.n),
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
		return nil, rd.dropMessage(m, &ProtocolError{"DATA", fmt.Sprintf("a message of %d bytes", m.n),
			fmt.Sprintf("the announced %d", p.size)})
	}
	rd.endPartial()
	if f.flags&wire.FlagImm != 0 {
		m.imm, m.hasImm = f.aux, true
	}
	return m, nil
}

// beginPartial begins a message of several frames.
// Preconditions: the caller has rd.turn.
func (rd *reader) beginPartial(m *message, size int) {
	l := rd.l
	p := &rd.partial
	p.m, p.size = m, size
	l.mu.Lock()
	frames := min(l.e.frameMost(l.win.kind), int(l.peer.Block)) // the peer's own may be as short
	l.win.assembling = size <= frames*int(l.win.recv.Target())/2
	p.asked = !l.win.assembling
	l.mu.Unlock()
	if !p.asked {
		return
	}
	if p.room.Wake == nil {
		p.room.Wake, p.room.Overdue = l.wakeReader, rd.overdue
	}
	if p.waits = !l.e.eng.messages.Ask(&p.room, size); !p.waits {
		m.buf = make([]byte, 0, size)
	}
}

// awaitRoom waits until there is room for the message that has begun, unless the connection is closed.
// Preconditions: the caller has rd.turn.
func (rd *reader) awaitRoom(b bound) error {
	l := rd.l
	for rd.partial.waits && !l.end.Closed() {
		if !l.e.eng.messages.Admitted(&rd.partial.room) {
			if err := l.e.waitData(b, &rd.wake, nil); err != nil {
				return err
			}
			continue
		}
		rd.partial.waits = false
		m := rd.partial.m
		m.buf = make([]byte, 0, rd.partial.size)
		m.gather()
	}
	return nil
}

// overdue ends the connection: its message is not complete in time, and others wait for the memory.
func (rd *reader) overdue() {
	l := rd.l
	e := l.e.eng
	err := fmt.Errorf("%w: a message was not complete in time: %w", ErrNoMemory, &ibv.LimitError{
		What: "bytes of blocks, buffers and unfinished messages", Asked: uint64(e.budget.Used()),
		Limit: uint64(e.opt.Memory), Where: "EngineOptions.Memory"})
	l.mu.Lock()
	l.reset(wire.ResetMemory, err)
	l.mu.Unlock()
	go func() { // if no reader does
		rd.turn.Take()
		if rd.partial.m != nil {
			rd.dropPartial()
		}
		rd.turn.Leave()
	}()
}

// dropMessage drops a message, whether or not it has several frames, and returns err.
// Preconditions: the caller has rd.turn.
func (rd *reader) dropMessage(m *message, err error) error {
	rd.endPartial()
	m.release()
	return err
}

// dropPartial drops the message that has begun.
// Preconditions: the caller has rd.turn.
func (rd *reader) dropPartial() { _ = rd.dropMessage(rd.partial.m, nil) }

// endPartial forgets the message that has begun, if there is one.
// Preconditions: the caller has rd.turn.
func (rd *reader) endPartial() {
	l := rd.l
	p := &rd.partial
	if p.m == nil {
		return
	}
	if p.asked {
		l.e.eng.messages.Leave(&p.room)
	} else {
		l.mu.Lock()
		l.win.assembling = false
		l.mu.Unlock()
	}
	p.m, p.size, p.asked, p.waits = nil, 0, false, false
}

// split makes a frame of several messages rd.current, and returns the first of them. It takes the frame over.
// Preconditions: the caller has rd.turn.
func (rd *reader) split(f frame) (*message, error) {
	l := rd.l
	f.b.Holders.Store(1)
	err := public(wire.CheckRecords(f.bytes(), min(l.e.frameMost(l.win.kind), l.maxMessage)))
	if rd.partial.m != nil {
		err = &ProtocolError{"DATA", "several messages within a message", "the rest of it"}
	}
	if err != nil {
		l.giveBack(f)
		return nil, err
	}
	rd.current = f
	return rd.unpack(), nil
}

// unpack returns the next message of rd.current.
// Preconditions: the caller has rd.turn, and the records were checked.
func (rd *reader) unpack() *message {
	f := &rd.current
	n, imm, hasImm := wire.ParseRecord(f.bytes())
	m := newMessage(rd.l)
	m.n, m.imm, m.hasImm = int(n), imm, hasImm
	m.frames = append(m.frames, frame{b: f.b, off: f.off + wire.RecordLen, n: int32(n), flags: wire.FlagPacked})
	size := int32(wire.RecordSize(int(n)))
	if f.off, f.n = f.off+size, f.n-size; f.n > 0 {
		f.b.Holders.Add(1)
	} else {
		rd.current = frame{} // the message is the last holder
	}
	return m
}
