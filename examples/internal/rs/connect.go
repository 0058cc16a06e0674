package rs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/pureverbs/pureverbs/examples/internal/cm"
	"github.com/pureverbs/pureverbs/examples/internal/pingpong"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// Connect returns the connection of either side: to the server, or of the first client.
func Connect(ctx context.Context, o *Options, out io.Writer) (_ *Socket, err error) {
	if o.Server != "" {
		return Dial(ctx, o)
	}
	l, err := Listen(ctx, o, out)
	if err != nil {
		return nil, err
	}
	defer pingpong.Close(l, &err)
	return l.Accept()
}

// Dial connects to the server.
func Dial(ctx context.Context, o *Options) (_ *Socket, err error) {
	to, err := cm.Resolve(ctx, o.Server, o.Port)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, rsocket.Stream, to, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if o.Bind != "" {
		from, err := cm.Resolve(ctx, o.Bind, "0")
		if err != nil {
			return nil, err
		}
		if err := s.Bind(from); err != nil {
			return nil, err
		}
	}
	err = s.Connect(to)
	if errors.Is(err, syscall.EINPROGRESS) {
		err = s.until(rsocket.PollOut, func() error {
			err := s.ConnectError()
			if errors.Is(err, syscall.EINPROGRESS) {
				return syscall.EAGAIN
			}
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	return s, s.connected()
}

// Listen makes the server's socket, which clients connect to, and says where.
func Listen(ctx context.Context, o *Options, out io.Writer) (_ *Socket, err error) {
	at, err := cm.Resolve(ctx, o.Bind, o.Port)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, rsocket.Stream, at, o)
	if err != nil {
		return nil, err
	}
	if err = s.Bind(at); err == nil {
		err = s.Listen(8)
	}
	if err == nil {
		at, err = s.LocalAddr()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	fmt.Fprintf(out, "listening on %v\n", at)
	return s, nil
}

// Accept waits for a client, however long it takes.
func (s *Socket) Accept() (*Socket, error) {
	p, err := rsocket.NewPoller()
	if err != nil {
		return nil, err
	}
	c := &Socket{ctx: s.ctx, o: s.o, poller: p}
	err = s.Try(s.ctx, rsocket.PollIn, func() (err error) {
		c.Socket, _, err = s.Socket.Accept()
		return err
	})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := c.connected(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// connected makes the calls of a connected socket block, if they are to.
func (s *Socket) connected() error {
	s.blocks = s.o.Wait == Blocking
	return s.SetNonblock(!s.blocks)
}
