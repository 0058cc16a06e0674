package rdma

import (
	"context"
	"net"

	"github.com/pureverbs/pureverbs/internal/attempts"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// DialStream connects to host:port, where ListenStream listens. opt may be nil. ctx bounds the call only, not the
// connection. The addresses of a host name are tried as by rdmacm.Dial. An error is a *net.OpError, as of every method
// of Stream and StreamListener.
func DialStream(ctx context.Context, addr string, opt *Options) (*Stream, error) {
	var s *Stream
	var err error
	if opt != nil && opt.Fallback {
		s, err = dialEither(ctx, addr, opt)
	} else {
		s, err = dialRDMA(ctx, addr, opt, new(attempts.Finish))
	}
	if err != nil {
		return nil, netOp("dial", nil, addrOf("tcp", addr), err)
	}
	return s, nil
}

func dialRDMA(ctx context.Context, addr string, opt *Options, finish *attempts.Finish) (*Stream, error) {
	l, err := dial(ctx, addr, wire.Stream, opt, finish)
	if err != nil {
		return nil, err
	}
	return newStream(l), nil
}

// StreamListener is a net.Listener of Streams.
type StreamListener struct {
	accept  func(ctx context.Context) (*Stream, error)
	close   func() error
	refused *tally
	at      net.Addr
}

// ListenStream listens on host:port for DialStream. An empty host means every address, port 0 any free port. At a
// loopback address, such as 127.0.0.1 or ::1, it rejects connections to other addresses, as Listen does.
//
// opt may be nil; it also applies to the connections. ctx bounds the call only: Close ends listening.
func ListenStream(ctx context.Context, addr string, opt *Options) (*StreamListener, error) {
	l, err := listenBytes(ctx, addr, opt)
	if err != nil {
		return nil, netOp("listen", nil, addrOf("tcp", addr), err)
	}
	return l, nil
}

func listenBytes(ctx context.Context, addr string, opt *Options) (*StreamListener, error) {
	if opt != nil && opt.Fallback {
		l, err := listenEither(ctx, addr, opt)
		if err != nil {
			return nil, err
		}
		return &StreamListener{l.accept, l.close, l.refused, l.addr()}, nil
	}
	l, err := listen(ctx, addr, wire.Stream, opt)
	if err != nil {
		return nil, err
	}
	accept := func(ctx context.Context) (*Stream, error) {
		c, err := l.accept(ctx)
		if err != nil {
			return nil, err
		}
		return newStream(c), nil
	}
	v := &StreamListener{accept, l.close, &l.refused, net.TCPAddrFromAddrPort(l.addr())}
	leak.Watch(v, l.opened)
	return v, nil
}

// Accept waits for the next connection, which is a *Stream. It is AcceptStream as package net has it, for programs that
// serve on a net.Listener.
func (l *StreamListener) Accept() (net.Conn, error) {
	s, err := l.AcceptStream(context.Background())
	if err != nil {
		return nil, err
	}
	return s, nil
}

// AcceptStream waits for the next connection, or until ctx ends: what Accept is for a Listener of messages.
func (l *StreamListener) AcceptStream(ctx context.Context) (*Stream, error) {
	s, err := l.accept(ctx)
	if err != nil {
		return nil, netOp("accept", nil, l.at, err)
	}
	return s, nil
}

// Close ends listening. Connections that were not accepted are closed, others stay open.
func (l *StreamListener) Close() error {
	return netOp("close", nil, l.at, l.close())
}

// Refused returns how many peers it has refused, or whose handshake took too long, by TCP as well: see
// Listener.Refused.
func (l *StreamListener) Refused() uint64 {
	return l.refused.all.Load()
}

// Addr returns the address that it listens on, a *net.TCPAddr.
func (l *StreamListener) Addr() net.Addr { return l.at }

var _ net.Listener = (*StreamListener)(nil)
