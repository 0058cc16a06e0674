package rdma

import (
	"context"

	"github.com/pureverbs/pureverbs/rdma/internal/link"
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
	l    *link.Link
	list []link.Outgoing
}

// Batch returns an empty Batch.
func (c *Conn) Batch() *Batch { return &Batch{l: c.l} }

// Len returns the number of messages that Post would send.
func (b *Batch) Len() int { return len(b.list) }

// Send adds p as a message, which is copied by Post: until then p must not change.
func (b *Batch) Send(p []byte) { b.list = append(b.list, link.Outgoing{P: p, N: len(p)}) }

// SendImm is Send with a number for Message.Imm.
func (b *Batch) SendImm(imm uint32, p []byte) {
	b.list = append(b.list, link.Outgoing{P: p, N: len(p), Flags: wire.FlagImm, Imm: imm})
}

// SendBuffer adds buf as a message that is not copied. It gives buf away, also if Post fails.
func (b *Batch) SendBuffer(buf *Buffer) {
	if buf == nil {
		b.list = append(b.list, link.NoBuffer)
		return
	}
	in := buf.h.Take()
	b.list = append(b.list, link.Outgoing{Buf: in, N: in.Len()})
}

// Post sends the messages, like Conn.Send, and empties the Batch. It returns how many were accepted;
// if not all were, the error is the reason. A message that cannot be sent at all keeps back all of them.
func (b *Batch) Post(ctx context.Context) (int, error) {
	n, err := b.l.Writer.SendMessages(ctx, b.list)
	for i, m := range b.list {
		if m.Buf != nil {
			m.Buf.Unpin()
		}
		b.list[i] = link.Outgoing{}
	}
	b.list = b.list[:0]
	return n, fault(b.l, "send", err)
}
