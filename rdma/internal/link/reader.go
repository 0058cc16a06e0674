package link

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// reader is the state of the goroutine that reads from a link, one at a time: the one that has the turn.
type reader struct {
	l       *Link
	Turn    turn.Turn
	Wake    progress.Signal
	partial partial
	Current frame // what it has begun
	dialog  dialog
}

// Read is Stream.Read.
func (rd *reader) Read(b turn.Bound, p []byte) (n int, err error) {
	if err := rd.Turn.Enter(b); err != nil {
		return 0, err
	}
	defer rd.Turn.Leave()
	if len(p) == 0 {
		if rd.l.End.Closed() {
			return 0, ibv.ErrClosed
		}
		return 0, nil
	}
	if err := rd.Begin(b); err != nil {
		return 0, err
	}
	f := &rd.Current
	for n < len(p) {
		if f.n == 0 {
			rd.Finish()
			if !rd.more() {
				break
			}
			continue
		}
		c := copy(p[n:], f.Bytes())
		n += c
		f.off, f.n = f.off+int32(c), f.n-int32(c)
	}
	if f.b != nil && f.n == 0 {
		rd.Finish()
	}
	return n, nil
}

// Begin makes rd.Current a frame with data, and waits for one.
// Preconditions: the caller has rd.Turn.
func (rd *reader) Begin(b turn.Bound) error {
	for rd.Current.n == 0 {
		if rd.Current.b != nil {
			rd.Finish()
		}
		f, err := rd.nextFrame(b)
		if err != nil {
			return err
		}
		rd.Current = f
	}
	return nil
}

// nextFrame takes the next data frame, and waits for one.
// Preconditions: the caller has rd.Turn.
func (rd *reader) nextFrame(b turn.Bound) (frame, error) {
	l := rd.l
	for {
		l.Mu.Lock()
		switch {
		case l.End.ReadShut:
			err := error(io.EOF)
			if l.End.Closed() {
				err = ibv.ErrClosed
			}
			l.Mu.Unlock()
			return frame{}, err
		case l.Inbox.Len() > 0:
			f := l.Inbox.Pop()
			l.Mu.Unlock()
			return f, nil
		case l.End.PeerFIN:
			l.Mu.Unlock()
			return frame{}, io.EOF
		case l.End.Drained:
			err := l.Reason()
			l.Mu.Unlock()
			return frame{}, err
		}
		p := rd.dialog.next(l.Send.Sent)
		l.Mu.Unlock()
		if err := l.Shard.Progress.WaitSignal(b, &rd.Wake, p); err != nil {
			return frame{}, err
		}
	}
}

// Finish gives rd.Current back.
// Preconditions: the caller has rd.Turn.
func (rd *reader) Finish() {
	f := rd.Current
	rd.Current = frame{}
	rd.l.giveBack(f)
}

// more makes rd.Current the next frame, if one has arrived.
// Preconditions: the caller has rd.Turn, and rd.Current is empty.
func (rd *reader) more() bool {
	l := rd.l
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.Inbox.Len() == 0 || l.End.ReadShut {
		return false
	}
	rd.Current = l.Inbox.Pop()
	return true
}

// takeFrame takes what is left of the frame that a reader has begun, or waits for the next.
func (l *Link) takeFrame(b turn.Bound) (frame, error) {
	if err := l.Reader.Turn.Enter(b); err != nil {
		return frame{}, err
	}
	defer l.Reader.Turn.Leave()
	if err := l.Reader.Begin(b); err != nil {
		return frame{}, err
	}
	f := l.Reader.Current
	l.Reader.Current = frame{}
	return f, nil
}

// RecvMessage waits for a message.
func (rd *reader) RecvMessage(b turn.Bound) (*Message, error) {
	l := rd.l
	if err := rd.Turn.Enter(b); err != nil {
		return nil, err
	}
	defer rd.Turn.Leave()
	for {
		if rd.Current.b != nil && !l.End.Closed() {
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
					err = breach("FIN", "one within a message", "the rest of the message")
				}
			}
			return nil, err
		}
		m, err := rd.assemble(f)
		if err != nil {
			l.Mu.Lock()
			l.broken(err)
			l.Mu.Unlock()
			return nil, err
		}
		if m != nil {
			return m, nil
		}
	}
}

// isWait reports whether an error ended a wait, and not the connection.
func isWait(err error) bool {
	return err == turn.ErrWouldWait || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// giveBack gives the block and the credit of a frame back.
func (l *Link) giveBack(f frame) {
	if f.flags&wire.FlagPacked != 0 && f.b.Holders.Add(-1) > 0 {
		return
	}
	l.Shard.Blocks.Consumed(f.b)
	l.Mu.Lock()
	l.Window.took(1)
	if l.Window.Recv.Due() {
		l.Pump()
	}
	l.Mu.Unlock()
}

// dropCurrent drops the frame that a reader has begun. Readers no longer begin another.
func (rd *reader) dropCurrent() {
	rd.Turn.Take()
	if rd.partial.m != nil {
		rd.dropPartial()
	}
	if rd.Current.b != nil {
		rd.Finish()
	}
	rd.Turn.Leave()
	rd.l.leave()
}

// partial is a message of several frames that has begun, with readTurn. It stays in its blocks if it needs at most half
// of the window. A longer one is copied together as it comes, as soon as there is room for it: see blocks.Messages.
type partial struct {
	m     *Message // nil: none has begun
	size  int      // its announced length
	room  blocks.Room
	asked bool // for room
	waits bool // its first frame stays in its block until there is room
}

// assemble adds a frame to the message that has begun, and returns the message when it is whole.
// Preconditions: the caller has rd.Turn, and the message that has begun does not wait for room.
func (rd *reader) assemble(f frame) (*Message, error) {
	l := rd.l
	if f.flags&wire.FlagPacked != 0 {
		return rd.split(f)
	}
	p := &rd.partial
	m := p.m
	if m == nil {
		m = NewMessage(l)
		if f.flags&wire.FlagMore != 0 {
			if f.aux > uint32(l.MaxMessage) {
				l.giveBack(f)
				m.recycle()
				return nil, breach("DATA", fmt.Sprintf("a message of %d bytes", f.aux),
					fmt.Sprintf("at most %d", l.MaxMessage))
			}
			rd.beginPartial(m, int(f.aux))
		}
	}
	if f.flags&wire.FlagCancel != 0 {
		l.giveBack(f)
		return nil, rd.dropMessage(m, nil)
	}
	m.N += int(f.n)
	most := min(l.Shard.FrameMost(l.Window.Kind), l.MaxMessage)
	if p.m != nil {
		most = p.size
	}
	if m.N > most || f.flags&wire.FlagMore != 0 && (f.n == 0 || m.N == most) {
		l.giveBack(f)
		return nil, rd.dropMessage(m, breach("DATA", fmt.Sprintf("%d bytes of a message", m.N),
			fmt.Sprintf("at most %d, and the last of them without MORE", most)))
	}
	if m.Buf != nil {
		m.Buf = append(m.Buf, f.Bytes()...)
		l.giveBack(f)
	} else {
		m.frames = append(m.frames, f)
	}
	if f.flags&wire.FlagMore != 0 {
		return nil, nil
	}
	if p.m != nil && m.N != p.size {
		return nil, rd.dropMessage(m, breach("DATA", fmt.Sprintf("a message of %d bytes", m.N),
			fmt.Sprintf("the announced %d", p.size)))
	}
	rd.endPartial()
	if f.flags&wire.FlagImm != 0 {
		m.Imm, m.HasImm = f.aux, true
	}
	return m, nil
}

// beginPartial begins a message of several frames.
// Preconditions: the caller has rd.Turn.
func (rd *reader) beginPartial(m *Message, size int) {
	l := rd.l
	p := &rd.partial
	p.m, p.size = m, size
	l.Mu.Lock()
	frames := min(l.Shard.FrameMost(l.Window.Kind), int(l.Peer.Block)) // the peer's own may be as short
	l.Window.assembling = size <= frames*int(l.Window.Recv.Target)/2
	p.asked = !l.Window.assembling
	l.Mu.Unlock()
	if !p.asked {
		return
	}
	if p.room.Wake == nil {
		p.room.Wake, p.room.Overdue = l.wakeReader, rd.overdue
	}
	if p.waits = !l.Shard.Engine.Messages.Ask(&p.room, size); !p.waits {
		m.Buf = make([]byte, 0, size)
	}
}

// awaitRoom waits until there is room for the message that has begun, unless the connection is closed.
// Preconditions: the caller has rd.Turn.
func (rd *reader) awaitRoom(b turn.Bound) error {
	l := rd.l
	for rd.partial.waits && !l.End.Closed() {
		if !l.Shard.Engine.Messages.Admitted(&rd.partial.room) {
			if err := l.Shard.Progress.WaitSignal(b, &rd.Wake, nil); err != nil {
				return err
			}
			continue
		}
		rd.partial.waits = false
		m := rd.partial.m
		m.Buf = make([]byte, 0, rd.partial.size)
		m.gather()
	}
	return nil
}

// overdue ends the connection: its message is not complete in time, and others wait for the memory.
func (rd *reader) overdue() {
	l := rd.l
	e := l.Shard.Engine
	err := fmt.Errorf("%w: a message was not complete in time: %w", pool.ErrNoMemory, &ibv.LimitError{
		What: "bytes of blocks, buffers and unfinished messages", Asked: uint64(e.Budget.Used()),
		Limit: uint64(e.Options.Memory), Where: "EngineOptions.Memory"})
	l.Mu.Lock()
	l.reset(wire.ResetMemory, err)
	l.Mu.Unlock()
	go func() { // if no reader does
		rd.Turn.Take()
		if rd.partial.m != nil {
			rd.dropPartial()
		}
		rd.Turn.Leave()
	}()
}

// dropMessage drops a message, whether or not it has several frames, and returns err.
// Preconditions: the caller has rd.Turn.
func (rd *reader) dropMessage(m *Message, err error) error {
	rd.endPartial()
	m.Release()
	return err
}

// dropPartial drops the message that has begun.
// Preconditions: the caller has rd.Turn.
func (rd *reader) dropPartial() { _ = rd.dropMessage(rd.partial.m, nil) }

// endPartial forgets the message that has begun, if there is one.
// Preconditions: the caller has rd.Turn.
func (rd *reader) endPartial() {
	l := rd.l
	p := &rd.partial
	if p.m == nil {
		return
	}
	if p.asked {
		l.Shard.Engine.Messages.Leave(&p.room)
	} else {
		l.Mu.Lock()
		l.Window.assembling = false
		l.Mu.Unlock()
	}
	p.m, p.size, p.asked, p.waits = nil, 0, false, false
}

// split makes a frame of several messages rd.Current, and returns the first of them. It takes the frame over.
// Preconditions: the caller has rd.Turn.
func (rd *reader) split(f frame) (*Message, error) {
	l := rd.l
	f.b.Holders.Store(1)
	err := wire.CheckRecords(f.Bytes(), min(l.Shard.FrameMost(l.Window.Kind), l.MaxMessage))
	if rd.partial.m != nil {
		err = breach("DATA", "several messages within a message", "the rest of it")
	}
	if err != nil {
		l.giveBack(f)
		return nil, err
	}
	rd.Current = f
	return rd.unpack(), nil
}

// unpack returns the next message of rd.Current.
// Preconditions: the caller has rd.Turn, and the records were checked.
func (rd *reader) unpack() *Message {
	f := &rd.Current
	n, imm, hasImm := wire.ParseRecord(f.Bytes())
	m := NewMessage(rd.l)
	m.N, m.Imm, m.HasImm = int(n), imm, hasImm
	m.frames = append(m.frames, frame{b: f.b, off: f.off + wire.RecordLen, n: int32(n), flags: wire.FlagPacked})
	size := int32(wire.RecordSize(int(n)))
	if f.off, f.n = f.off+size, f.n-size; f.n > 0 {
		f.b.Holders.Add(1)
	} else {
		rd.Current = frame{} // the message is the last holder
	}
	return m
}
