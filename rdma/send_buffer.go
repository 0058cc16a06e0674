package rdma

import (
	"context"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
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
	buf   *bufMem
	n     int
	flags uint8 // of the last frame
	imm   uint32
}

// SendBuffer sends b as a message, without a copy. It gives b away, even if it fails: b is released when
// the device has sent it. Otherwise it is like Send.
func (c *Conn) SendBuffer(ctx context.Context, b *Buffer) error {
	if b == nil {
		return c.fail("send", c.l.check(&noBuffer))
	}
	buf := b.take()
	defer buf.unpin()
	return c.fail("send", c.l.sendMessage(ctx, outgoing{buf: buf, n: buf.n}))
}

// noBuffer represents a buffer that is nil; check refuses it.
var noBuffer = outgoing{n: -1}

// check reports what is wrong with a message.
func (l *link) check(m *outgoing) error {
	if m.n < 0 {
		return &ibv.ArgError{Arg: "buffer", Got: "nil", Want: "one of Pool"}
	}
	if most := min(int(l.peer.MaxMessage), longestMessage); m.n > most {
		return fmt.Errorf("%w: %w", ErrTooLarge, &ibv.LimitError{What: "bytes of a message", Asked: uint64(m.n),
			Limit: uint64(most), Where: "Options.MaxMessage of the peer"})
	}
	if m.buf != nil && m.buf.p != l.e.eng.pool {
		return &ibv.ArgError{Arg: "b", Got: "a buffer of another engine", Want: "one of the connection's engine"}
	}
	return nil
}

// stageMessage stages the frames of a message, or none of them.
// Preconditions: the caller has writeTurn.
func (l *link) stageMessage(b bound, m *outgoing) error {
	if l.pack(m) {
		return nil
	}
	most := l.frameMost()
	for off := 0; ; {
		n := min(m.n-off, most)
		f, err := l.piece(b, m, off, n)
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
			err = l.stage(f)
		}
		if err != nil {
			l.takeBack()
			return err
		}
		if off == m.n {
			return nil
		}
	}
}

// piece makes a frame of n bytes of a message, as soon as one may be staged.
// Preconditions: the caller has writeTurn.
func (l *link) piece(b bound, m *outgoing, off, n int) (f sendq.Frame[held], err error) {
	if m.buf != nil && off == 0 && m.buf.start == headroom {
		if _, err := l.waitRoom(b); err != nil {
			return f, err
		}
		m.buf.pin()
		return inBuffer(m.buf, nil, 0, n), nil
	}
	lent := m.buf != nil && n > copyMost
	copied := n
	if lent {
		copied = 0
	}
	block, err := l.waitBlock(b, copied)
	if err != nil {
		return f, err
	}
	switch {
	case lent:
		m.buf.pin()
		return inBuffer(m.buf, block, off, n), nil
	case m.buf == nil:
		copy(block.Payload(), m.p[off:off+n])
	default:
		copy(block.Payload(), m.buf.mem[m.buf.start+off:][:n])
	}
	return inBlock(block, n), nil
}
