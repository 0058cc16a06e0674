package rdma

import (
	"context"
	"fmt"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Batch collects messages and posts them with one doorbell for every 16 frames:
//
//	b := c.Batch() // once: Post empties it for reuse
//	b.Send(header)
//	b.SendBuffer(body)
//	_, err := b.Post(ctx)
//
// One goroutine at a time may use a Batch; a connection may have several. It does not allocate once it
// has grown to its usual size.
type Batch struct {
	l    *link
	list []outgoing
}

// Batch returns an empty Batch.
func (c *Conn) Batch() *Batch { return &Batch{l: c.l} }

// Len returns the number of messages that Post would send.
func (b *Batch) Len() int { return len(b.list) }

// Send adds p as a message, which is copied by Post: until then p must not change.
func (b *Batch) Send(p []byte) { b.list = append(b.list, outgoing{p: p, n: len(p)}) }

// SendImm is Send with a number for Message.Imm.
func (b *Batch) SendImm(imm uint32, p []byte) {
	b.list = append(b.list, outgoing{p: p, n: len(p), flags: wire.FlagImm, imm: imm})
}

// SendBuffer adds buf as a message that is not copied. It gives buf away, also if Post fails.
func (b *Batch) SendBuffer(buf *Buffer) {
	if buf == nil {
		b.list = append(b.list, noBuffer)
		return
	}
	in := buf.h.Take()
	b.list = append(b.list, outgoing{buf: in, n: in.Len()})
}

// Post sends the messages, like Conn.Send, and empties the Batch. It returns how many were accepted;
// if not all were, the error is the reason. A message that cannot be sent at all keeps back all of them.
func (b *Batch) Post(ctx context.Context) (int, error) {
	n, err := b.post(ctx)
	for i, m := range b.list {
		if m.buf != nil {
			m.buf.Unpin()
		}
		b.list[i] = outgoing{}
	}
	b.list = b.list[:0]
	return n, b.l.fault("send", err)
}

func (b *Batch) post(ctx context.Context) (int, error) {
	l := b.l
	for i := range b.list {
		if err := l.wr.check(&b.list[i]); err != nil {
			return 0, fmt.Errorf("message %d of %d: %w", i, len(b.list), err)
		}
	}
	w := bound{Ctx: ctx}
	if err := l.wr.turn.Enter(w); err != nil {
		return 0, err
	}
	defer l.wr.turn.Leave()
	l.wr.hold()
	defer l.wr.letGo()
	for i := range b.list {
		if err := l.wr.stageMessage(w, &b.list[i]); err != nil {
			return i, err
		}
	}
	return len(b.list), nil
}
