package rdma

import "context"

// SendBuffer sends b as a message, without a copy. It gives b away, even if it fails: b is released when
// the device has sent it. Otherwise it is like Send.
func (c *Conn) SendBuffer(ctx context.Context, b *Buffer) error {
	if b == nil {
		return c.fail("send", c.l.wr.check(&noBuffer))
	}
	buf := b.h.Take()
	defer buf.Unpin()
	return c.fail("send", c.l.wr.sendMessage(ctx, outgoing{buf: buf, n: buf.Len()}))
}
