package rdma

import (
	"context"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// copyMost is how many bytes of a buffer are copied when a block is needed for their header anyway.
const copyMost = 256

// longestMessage is the longest of all MaxMessages.
const longestMessage = 1<<31 - 1

// outgoing is a message to be sent: a slice, or a buffer that was given away.
type outgoing struct {
	p     []byte
	buf   *pool.Buf
	n     int
	flags uint8 // of the last frame
	imm   uint32
}

// noBuffer represents a buffer that is nil; check refuses it.
var noBuffer = outgoing{n: -1}

// check reports what is wrong with a message.
func (wr *writing) check(m *outgoing) error {
	if m.n < 0 {
		return &ibv.ArgError{Arg: "buffer", Got: "nil", Want: "one of Pool"}
	}
	if most := min(int(wr.l.peer.MaxMessage), longestMessage); m.n > most {
		return fmt.Errorf("%w: %w", ErrTooLarge, &ibv.LimitError{What: "bytes of a message", Asked: uint64(m.n),
			Limit: uint64(most), Where: "Options.MaxMessage of the peer"})
	}
	if m.buf != nil && m.buf.Pool() != wr.l.e.eng.pool {
		return &ibv.ArgError{Arg: "b", Got: "a buffer of another engine", Want: "one of the connection's engine"}
	}
	return nil
}

func (wr *writing) sendMessage(ctx context.Context, m outgoing) error {
	if err := wr.check(&m); err != nil {
		return err
	}
	b := bound{Ctx: ctx}
	if err := wr.turn.Enter(b); err != nil {
		return err
	}
	defer wr.turn.Leave()
	return wr.stageMessage(b, &m)
}

// stageMessage stages the frames of a message, or none of them.
// Preconditions: the caller has wr.turn.
func (wr *writing) stageMessage(b bound, m *outgoing) error {
	if wr.pack(m) {
		return nil
	}
	most := wr.l.frameMost()
	for off := 0; ; {
		n := min(m.n-off, most)
		f, err := wr.piece(b, m, off, n)
		if err == nil {
			if off == 0 {
				f.Aux = uint32(m.n)
			}
			f.Alone = n == m.n && f.Held.buf == nil
			if off += n; off < m.n {
				f.Flags = wire.FlagMore
			} else if f.Flags = m.flags; m.flags&wire.FlagImm != 0 {
				f.Aux = m.imm
			}
			err = wr.stage(f)
		}
		if err != nil {
			wr.takeBack()
			return err
		}
		if off == m.n {
			return nil
		}
	}
}

// piece makes a frame of n bytes of a message, as soon as one may be staged.
// Preconditions: the caller has wr.turn.
func (wr *writing) piece(b bound, m *outgoing, off, n int) (f sendq.Frame[held], err error) {
	if m.buf != nil && off == 0 && m.buf.Headed() {
		if _, err := wr.waitRoom(b); err != nil {
			return f, err
		}
		m.buf.Pin()
		return inBuffer(m.buf, nil, 0, n), nil
	}
	lent := m.buf != nil && n > copyMost && !wr.oneSGE
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
		m.buf.Pin()
		return inBuffer(m.buf, block, off, n), nil
	case m.buf == nil:
		copy(block.Payload(), m.p[off:off+n])
	default:
		copy(block.Payload(), m.buf.Bytes()[off:][:n])
	}
	return inBlock(block, n), nil
}

// Messages that cannot leave at once share a frame: a message is appended to the last frame that is staged, if it fits
// in there. Such a frame consists of records, one for each message. No frame waits to be filled.

// pack appends a message to the last staged frame, and reports whether it could.
// Preconditions: the caller has wr.turn.
func (wr *writing) pack(m *outgoing) bool {
	l := wr.l
	if m.buf != nil || l.peer.Flags&wire.HelloPacks == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writeError() == nil && l.q.Pack(m.p, m.flags, m.imm, l.frameMost())
}
