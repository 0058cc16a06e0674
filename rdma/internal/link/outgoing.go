package link

import (
	"context"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// CopyMost is how many bytes of a buffer are copied when a block is needed for their header anyway.
const CopyMost = 256

// LongestMessage is the longest of all MaxMessages.
const LongestMessage = 1<<31 - 1

// Outgoing is a message to be sent: a slice, or a buffer that was given away.
type Outgoing struct {
	P     []byte
	Buf   *pool.Buf
	N     int
	Flags uint8 // of the last frame
	Imm   uint32
}

// NoBuffer represents a buffer that is nil; check refuses it.
var NoBuffer = Outgoing{N: -1}

// Check reports what is wrong with a message.
func (wr *writing) Check(m *Outgoing) error {
	if m.N < 0 {
		return &ibv.ArgError{Arg: "buffer", Got: "nil", Want: "one of Pool"}
	}
	if most := min(int(wr.l.Peer.MaxMessage), LongestMessage); m.N > most {
		return fmt.Errorf("%w: %w", ErrTooLarge, &ibv.LimitError{What: "bytes of a message", Asked: uint64(m.N),
			Limit: uint64(most), Where: "Options.MaxMessage of the peer"})
	}
	if m.Buf != nil && m.Buf.Pool != wr.l.Shard.Engine.Pool {
		return &ibv.ArgError{Arg: "b", Got: "a buffer of another engine", Want: "one of the connection's engine"}
	}
	return nil
}

// SendMessage stages a message, as soon as it may.
func (wr *writing) SendMessage(ctx context.Context, m Outgoing) error {
	if err := wr.Check(&m); err != nil {
		return err
	}
	b := turn.Bound{Ctx: ctx}
	if err := wr.Turn.Enter(b); err != nil {
		return err
	}
	defer wr.Turn.Leave()
	return wr.stageMessage(b, &m)
}

// SendMessages sends messages with as few doorbells as they need, and returns how many were accepted. None is if one
// cannot be sent at all.
func (wr *writing) SendMessages(ctx context.Context, list []Outgoing) (int, error) {
	for i := range list {
		if err := wr.Check(&list[i]); err != nil {
			return 0, fmt.Errorf("message %d of %d: %w", i, len(list), err)
		}
	}
	b := turn.Bound{Ctx: ctx}
	if err := wr.Turn.Enter(b); err != nil {
		return 0, err
	}
	defer wr.Turn.Leave()
	wr.hold()
	defer wr.letGo()
	for i := range list {
		if err := wr.stageMessage(b, &list[i]); err != nil {
			return i, err
		}
	}
	return len(list), nil
}

// stageMessage stages the frames of a message, or none of them.
// Preconditions: the caller has wr.Turn.
func (wr *writing) stageMessage(b turn.Bound, m *Outgoing) error {
	if wr.pack(m) {
		return nil
	}
	most := wr.l.FrameMost()
	for off := 0; ; {
		n := min(m.N-off, most)
		f, err := wr.piece(b, m, off, n)
		if err == nil {
			if off == 0 {
				f.Aux = uint32(m.N)
			}
			f.Alone = n == m.N && f.Held.buf == nil
			if off += n; off < m.N {
				f.Flags = wire.FlagMore
			} else if f.Flags = m.Flags; m.Flags&wire.FlagImm != 0 {
				f.Aux = m.Imm
			}
			err = wr.stage(f)
		}
		if err != nil {
			wr.takeBack()
			return err
		}
		if off == m.N {
			return nil
		}
	}
}

// piece makes a frame of n bytes of a message, as soon as one may be staged.
// Preconditions: the caller has wr.Turn.
func (wr *writing) piece(b turn.Bound, m *Outgoing, off, n int) (f sendq.Frame[Held], err error) {
	if m.Buf != nil && off == 0 && m.Buf.Headed() {
		if _, err := wr.waitRoom(b); err != nil {
			return f, err
		}
		m.Buf.Pin()
		return inBuffer(m.Buf, nil, 0, n), nil
	}
	lent := m.Buf != nil && n > CopyMost && !wr.OneSGE
	copied := n
	if lent {
		copied = 0
	}
	block, err := wr.waitBlock(b, copied)
	if err != nil {
		return f, err
	}
	switch {
	case lent:
		m.Buf.Pin()
		return inBuffer(m.Buf, block, off, n), nil
	case m.Buf == nil:
		copy(block.Payload(), m.P[off:off+n])
	default:
		copy(block.Payload(), m.Buf.Bytes()[off:][:n])
	}
	return inBlock(block, n), nil
}

// Note makes the frame of a message that follows an operation, as soon as one may be staged.
// Preconditions: the caller has wr.Turn.
func (wr *writing) Note(b turn.Bound, p []byte, flags uint8, imm uint32) (f sendq.Frame[Held], err error) {
	block, err := wr.waitBlock(b, len(p))
	if err != nil {
		return f, err
	}
	f = inBlock(block, copy(block.Payload(), p))
	if f.Flags, f.Aux = flags, imm; flags&wire.FlagImm == 0 {
		f.Aux = uint32(len(p))
	}
	return f, nil
}

// Messages that cannot leave at once share a frame: a message is appended to the last frame that is staged, if it fits
// in there. Such a frame consists of records, one for each message. No frame waits to be filled.

// pack appends a message to the last staged frame, and reports whether it could.
// Preconditions: the caller has wr.Turn.
func (wr *writing) pack(m *Outgoing) bool {
	l := wr.l
	if m.Buf != nil || l.Peer.Flags&wire.HelloPacks == 0 {
		return false
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.writeError() == nil && l.Queue.Pack(m.P, m.Flags, m.Imm, l.FrameMost())
}
