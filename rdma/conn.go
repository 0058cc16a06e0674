package rdma

import (
	"context"
	"net/netip"

	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Conn is a connection that carries messages.
//
// It belongs to the caller and is safe for concurrent use. Messages arrive whole, once, and in the
// order in which they were sent, unless the connection breaks. A peer that does not call Recv stops
// its own senders only.
type Conn struct{ l *link }

// Dial connects to host:port, where Listen listens. opt may be nil. ctx bounds the call only, not the connection. The
// addresses of a host name are tried as by rdmacm.Dial.
func Dial(ctx context.Context, addr string, opt *Options) (*Conn, error) {
	l, err := dial(ctx, addr, wire.Messages, opt)
	if err != nil {
		return nil, err
	}
	return openConn(l), nil
}

// Listener accepts connections for messages.
type Listener struct{ l *listener }

// Listen listens on host:port for Dial. An empty host means every address, port 0 any free port. At a loopback
// address, such as 127.0.0.1 or ::1, the listener rejects connections to other addresses: see rdmacm.Listen.
//
// opt may be nil; it also applies to the connections. ctx bounds the lookup of the host only: Close ends listening.
func Listen(ctx context.Context, addr string, opt *Options) (*Listener, error) {
	l, err := listen(ctx, addr, wire.Messages, opt)
	if err != nil {
		return nil, err
	}
	v := &Listener{l}
	watch(v, l.opened)
	return v, nil
}

// Accept waits for the next connection, or until ctx ends.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	c, err := l.l.accept(ctx)
	if err != nil {
		return nil, err
	}
	return openConn(c), nil
}

// Close ends listening. Connections that were not accepted are closed, others stay open.
func (l *Listener) Close() error { return l.l.close() }

// Refused returns how many peers it has refused, or whose handshake took too long. Stats.Refused has those of all
// listeners of an engine, which a listener may not have before its first connection.
func (l *Listener) Refused() uint64 { return l.l.refused.all.Load() }

// Addr returns the address that it listens on.
func (l *Listener) Addr() netip.AddrPort { return l.l.addr() }

// LocalAddr returns the address of this side.
func (c *Conn) LocalAddr() netip.AddrPort { return c.l.local }

// RemoteAddr returns the address of the peer.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.l.remote }

// Transport describes what carries the messages, such as "rdma mlx5_0 Direct".
func (c *Conn) Transport() string { return c.l.e.cq.Carrier() }

// Engine returns the engine that the connection belongs to.
func (c *Conn) Engine() *Engine { return c.l.e.eng }

// PeerInfo is the peer's information about itself.
type PeerInfo struct {
	Block       int    // most payload of a frame
	MaxMessage  int    // longest message
	PrivateData []byte // of its Options, padded with zeros to 16 bytes
}

// Peer returns the peer's information about itself.
func (c *Conn) Peer() PeerInfo {
	p := &c.l.peer
	return PeerInfo{Block: int(p.Block), MaxMessage: int(p.MaxMessage), PrivateData: append([]byte(nil), p.App[:]...)}
}

func (c *Conn) fail(op string, err error) error { return c.l.fault(op, err) }

// Send sends a copy of p as a message. It returns as soon as the message is staged; it waits while
// the peer does not read. If ctx ends meanwhile, the peer does not get the message.
func (c *Conn) Send(ctx context.Context, p []byte) error {
	return c.fail("send", c.l.wr.sendMessage(ctx, outgoing{p: p, n: len(p)}))
}

// SendImm is Send with a number for Message.Imm.
func (c *Conn) SendImm(ctx context.Context, imm uint32, p []byte) error {
	return c.fail("send", c.l.wr.sendMessage(ctx, outgoing{p: p, n: len(p), flags: wire.FlagImm, imm: imm}))
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
	m, err := c.l.rd.recvMessage(bound{Ctx: ctx})
	if err != nil {
		return Message{}, c.fail("recv", err)
	}
	return m.handle(), nil
}

// Flush waits until all that was sent is in the peer's memory.
func (c *Conn) Flush(ctx context.Context) error { return c.fail("flush", c.l.wr.flush(ctx)) }

// CloseWrite ends sending: the peer's Recv returns io.EOF after all that was sent.
func (c *Conn) CloseWrite() error { return c.fail("close", c.l.closeSend()) }

// Close closes the connection. The peer receives what was sent, then io.EOF; its sends fail.
//
// Close waits until the peer's adapter has all that was sent, so a program may end right after it. It does not wait
// for the peer's program, except that a peer that does not call Recv stops what is sent. Options.Linger bounds the
// wait. The error is an *UndeliveredError if something was not delivered, also if the connection had broken before.
//
// Calls of Close on one engine whose peers take nothing share this time: a call after them waits for less, and the
// engine goes on in the background. So closing many connections takes no longer than closing one. A call whose peer
// takes something, or has done so less than Linger ago, does not depend on others.
func (c *Conn) Close() error { return c.fail("close", c.l.closeWait(nil)) }

// CloseNow closes the connection without waiting. What was not sent is dropped, and the peer's error is ErrPeerGone.
func (c *Conn) CloseNow() error {
	c.l.closeNow()
	return nil
}

// Done returns a channel that is closed when the connection has ended, by either side; Err then
// returns why.
func (c *Conn) Done() <-chan struct{} { return c.l.end.Done() }

// Err returns why the connection has ended, or nil while it has not.
func (c *Conn) Err() error { return c.l.ended() }

// TryRecv is Recv, but does not wait: it reports whether a message was there.
func (c *Conn) TryRecv() (*Message, bool, error) {
	m, err := c.tryRecv()
	if m.m == nil {
		return nil, false, err
	}
	return &m, true, nil
}

func (c *Conn) tryRecv() (Message, error) {
	m, err := c.l.rd.recvMessage(bound{Now: true})
	switch err {
	case nil:
		return m.handle(), nil
	case errWouldWait:
		return Message{}, nil
	}
	return Message{}, c.fail("recv", err)
}
