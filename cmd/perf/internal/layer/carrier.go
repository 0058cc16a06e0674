package layer

import (
	"context"
	"fmt"
	"net"

	"github.com/pureverbs/pureverbs/rdma"
)

// pipe is a connection of a run.
type pipe interface {
	// send sends p, as a message where there are such.
	send(ctx context.Context, p []byte) error
	// recv takes at most len(p) bytes that have arrived, at least one, and returns how many.
	recv(ctx context.Context, p []byte) (int, error)
	// link returns the connection of package rdma, or nil.
	link() link
	close() error
}

// link is a stream, or a connection for messages.
type link interface {
	Engine() *rdma.Engine
	Transport() string
}

// bytePipe is a stream or a TCP connection.
type bytePipe struct{ net.Conn }

func (p bytePipe) send(_ context.Context, b []byte) error {
	_, err := p.Write(b)
	return err
}

func (p bytePipe) recv(_ context.Context, b []byte) (int, error) { return p.Read(b) }

func (p bytePipe) link() link {
	l, _ := p.Conn.(link)
	return l
}

func (p bytePipe) close() error { return p.Close() }

func streamPipe(carrier Carrier, s *rdma.Stream) pipe {
	if carrier == Copy {
		return newCopyPipe(s)
	}
	return bytePipe{s}
}

// messagePipe is a connection for messages.
type messagePipe struct{ c *rdma.Conn }

func (p messagePipe) send(ctx context.Context, b []byte) error { return p.c.Send(ctx, b) }

func (p messagePipe) recv(ctx context.Context, b []byte) (int, error) {
	m, err := p.c.Recv(ctx)
	if err != nil {
		return 0, err
	}
	n := m.Len()
	m.Release()
	if n > len(b) {
		return 0, fmt.Errorf("a message of %d bytes, want at most %d", n, len(b))
	}
	return n, nil
}

func (p messagePipe) link() link   { return p.c }
func (p messagePipe) close() error { return p.c.Close() }

// bufferPipe sends buffers of the pool, which are not filled.
type bufferPipe struct{ messagePipe }

func (p bufferPipe) send(ctx context.Context, b []byte) error {
	buf, err := p.c.Engine().Pool().GetWait(ctx, len(b))
	if err != nil {
		return err
	}
	return p.c.SendBuffer(ctx, buf)
}

// listener accepts the connections of a run.
type listener struct {
	addr   string
	accept func(ctx context.Context) (pipe, error)
	close  func() error
}

// listen listens on any free port of a host.
func listen(ctx context.Context, carrier Carrier, host string, opt *rdma.Options) (*listener, error) {
	addr := net.JoinHostPort(host, "0")
	switch carrier {
	case Stream, Copy:
		l, err := rdma.ListenStream(ctx, addr, opt)
		if err != nil {
			return nil, err
		}
		return &listener{l.Addr().String(), func(ctx context.Context) (pipe, error) {
			c, err := l.AcceptStream(ctx)
			return streamPipe(carrier, c), err
		}, l.Close}, nil
	case Message, Buffer:
		l, err := rdma.Listen(ctx, addr, opt)
		if err != nil {
			return nil, err
		}
		return &listener{l.Addr().String(), func(ctx context.Context) (pipe, error) {
			c, err := l.Accept(ctx)
			return messagePipe{c}, err
		}, l.Close}, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &listener{l.Addr().String(), func(ctx context.Context) (pipe, error) {
		defer context.AfterFunc(ctx, func() { l.Close() })()
		c, err := l.Accept()
		return bytePipe{c}, err
	}, l.Close}, nil
}

// dial connects to what listen has returned.
func dial(ctx context.Context, carrier Carrier, addr string, opt *rdma.Options) (pipe, error) {
	switch carrier {
	case Buffer:
		c, err := rdma.Dial(ctx, addr, opt)
		return bufferPipe{messagePipe{c}}, err
	case Stream, Copy:
		c, err := rdma.DialStream(ctx, addr, opt)
		return streamPipe(carrier, c), err
	case Message:
		c, err := rdma.Dial(ctx, addr, opt)
		return messagePipe{c}, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	return bytePipe{c}, err
}
