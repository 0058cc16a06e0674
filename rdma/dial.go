package rdma

import (
	"context"
	"net/netip"

	"github.com/pureverbs/pureverbs/internal/attempts"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Dial connects to host:port, where Listen listens. opt may be nil. ctx bounds the call only, not the connection. The
// addresses of a host name are tried as by rdmacm.Dial.
func Dial(ctx context.Context, addr string, opt *Options) (*Conn, error) {
	l, err := dial(ctx, addr, wire.Messages, opt, new(attempts.Finish))
	if err != nil {
		return nil, err
	}
	return openConn(l), nil
}

// openConn returns the Conn of l for Dial and Accept.
func openConn(l *link.Link) *Conn {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	c := connOf(l)
	l.Opened = leak.Track("connection to " + l.Remote.String())
	leak.Watch(c, l.Opened)
	return c
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
	leak.Watch(v, l.opened)
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
