package rdma

import (
	"context"
	"net/netip"
	"weak"

	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Conn is a connection that carries messages.
//
// It belongs to the caller and is safe for concurrent use. Messages arrive whole, once, and in the
// order in which they were sent, unless the connection breaks. A peer that does not call Recv stops
// its own senders only.
type Conn struct{ l *link.Link }

// connOf returns the Conn of l, which is the same one as long as the program has it. The link does not keep it, so that
// a Conn that the program has lost is noticed.
// Preconditions: l.Mu is held.
func connOf(l *link.Link) *Conn {
	v, _ := l.View.(weak.Pointer[Conn])
	c := v.Value()
	if c == nil {
		c = &Conn{l}
		l.View = weak.Make(c)
	}
	return c
}

// LocalAddr returns the address of this side.
func (c *Conn) LocalAddr() netip.AddrPort { return c.l.Local }

// RemoteAddr returns the address of the peer.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.l.Remote }

// Transport describes what carries the messages, such as "rdma mlx5_0 Direct".
func (c *Conn) Transport() string { return c.l.Shard.CQ.Carrier() }

// Engine returns the engine that the connection belongs to.
func (c *Conn) Engine() *Engine { return c.l.Shard.Engine.Owner.(*Engine) }

// PeerInfo is the peer's information about itself.
type PeerInfo struct {
	Block       int    // most payload of a frame
	MaxMessage  int    // longest message
	PrivateData []byte // of its Options, padded with zeros to 16 bytes
}

// Peer returns the peer's information about itself.
func (c *Conn) Peer() PeerInfo {
	p := &c.l.Peer
	return PeerInfo{Block: int(p.Block), MaxMessage: int(p.MaxMessage), PrivateData: append([]byte(nil), p.App[:]...)}
}

func (c *Conn) fail(op string, err error) error { return fault(c.l, op, err) }

// Send sends a copy of p as a message. It returns as soon as the message is staged; it waits while
// the peer does not read. If ctx ends meanwhile, the peer does not get the message.
func (c *Conn) Send(ctx context.Context, p []byte) error {
	return c.fail("send", c.l.Writer.SendMessage(ctx, link.Outgoing{P: p, N: len(p)}))
}

// SendImm is Send with a number for Message.Imm.
func (c *Conn) SendImm(ctx context.Context, imm uint32, p []byte) error {
	return c.fail("send", c.l.Writer.SendMessage(ctx, link.Outgoing{P: p, N: len(p), Flags: wire.FlagImm, Imm: imm}))
}

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

// Recv waits for the next message. After the last one of a peer that has closed in order the error
// is io.EOF. Each message is delivered to one goroutine.
func (c *Conn) Recv(ctx context.Context) (*Message, error) {
	m, err := c.recv(ctx)
	if err != nil {
		return nil, err
	}
	return &m, nil
}

func (c *Conn) recv(ctx context.Context) (Message, error) {
	m, err := c.l.Reader.RecvMessage(turn.Bound{Ctx: ctx})
	if err != nil {
		return Message{}, c.fail("recv", err)
	}
	return messageOf(m), nil
}

// Flush waits until all that was sent is in the peer's memory.
func (c *Conn) Flush(ctx context.Context) error { return c.fail("flush", c.l.Writer.Flush(ctx)) }

// CloseWrite ends sending: the peer's Recv returns io.EOF after all that was sent.
func (c *Conn) CloseWrite() error { return c.fail("close", c.l.CloseSend()) }

// Close closes the connection. The peer receives what was sent, then io.EOF; its sends fail.
//
// Close waits until the peer's adapter has all that was sent, so a program may end right after it. It does not wait
// for the peer's program, except that a peer that does not call Recv stops what is sent. Options.Linger bounds the
// wait. The error is an *UndeliveredError if something was not delivered, also if the connection had broken before.
//
// Calls of Close on one engine whose peers take nothing share this time: a call after them waits for less, and the
// engine goes on in the background. So closing many connections takes no longer than closing one. A call whose peer
// takes something, or has done so less than Linger ago, does not depend on others.
func (c *Conn) Close() error { return c.fail("close", c.l.CloseWait(nil)) }

// CloseNow closes the connection without waiting. What was not sent is dropped, and the peer's error is ErrPeerGone.
func (c *Conn) CloseNow() error {
	c.l.CloseNow()
	return nil
}

// Done returns a channel that is closed when the connection has ended, by either side; Err then
// returns why.
func (c *Conn) Done() <-chan struct{} { return c.l.End.Done() }

// Err returns why the connection has ended, or nil while it has not.
func (c *Conn) Err() error { return public(c.l.Ended()) }

// TryRecv is Recv, but does not wait: it reports whether a message was there.
func (c *Conn) TryRecv() (*Message, bool, error) {
	m, there, err := c.tryRecv()
	if there {
		return &m, true, nil
	}
	return nil, false, err
}

func (c *Conn) tryRecv() (m Message, there bool, err error) {
	in, err := c.l.Reader.RecvMessage(turn.Bound{Now: true})
	switch err {
	case nil:
		return messageOf(in), true, nil
	case turn.ErrWouldWait:
		return Message{}, false, nil
	}
	return Message{}, false, c.fail("recv", err)
}
