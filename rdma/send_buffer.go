package rdma

import (
	"context"

	"github.com/pureverbs/pureverbs/rdma/internal/link"
)

// SendBuffer sends b as a message, without a copy. It gives b away, even if it fails: b is released when
// the device has sent it. Otherwise it is like Send.
func (c *Conn) SendBuffer(ctx context.Context, b *Buffer) error {
	if b == nil {
		return c.fail("send", c.l.Writer.Check(&link.NoBuffer))
	}
	buf := b.h.Take()
	defer buf.Unpin()
	return c.fail("send", c.l.Writer.SendMessage(ctx, link.Outgoing{Buf: buf, N: buf.Len()}))
}
