package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"

	"github.com/pureverbs/pureverbs/examples/program"
	"github.com/pureverbs/pureverbs/rdmacm/rsocket"
)

// socket is an rsocket whose calls wait until they are possible. It is not safe for concurrent use.
type socket struct {
	*rsocket.Socket
	ctx    context.Context // ends waiting
	o      *options
	poller *rsocket.Poller
	blocks bool
}

// wrap makes a socket of an rsocket.
func wrap(ctx context.Context, o *options, s *rsocket.Socket) (*socket, error) {
	p, err := rsocket.NewPoller()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &socket{Socket: s, ctx: ctx, o: o, poller: p}, nil
}

// open returns the socket of a client, which is connected, or of a server, which clients can reach.
func open(ctx context.Context, o *options, t rsocket.Type, out io.Writer) (_ *socket, err error) {
	defer program.Catch(&err)
	from, to, err := o.Resolve(ctx)
	program.Check(err)
	domain := rsocket.DomainINET
	if from.Addr().Is6() || to.Addr().Is6() {
		domain = rsocket.DomainINET6
	}
	s := program.Must(wrap(ctx, o, program.Must(rsocket.New(domain, t))))
	if err := s.begin(t, from, to, out); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// begin connects, or listens. Options are set first, because connecting makes what they are about.
func (s *socket) begin(t rsocket.Type, from, to netip.AddrPort, out io.Writer) (err error) {
	defer program.Catch(&err)
	if s.o.buffer > 0 {
		program.Check(s.SetIntOption(rsocket.LevelSocket, rsocket.OptSendBuf, s.o.buffer))
		program.Check(s.SetIntOption(rsocket.LevelSocket, rsocket.OptRecvBuf, s.o.buffer))
	}
	if t == rsocket.Stream {
		program.Check(s.SetReuseAddr())
		program.Check(s.SetIntOption(rsocket.LevelTCP, rsocket.OptNoDelay, 1))
	}
	if s.o.ioMaps > 0 {
		program.Check(s.SetIntOption(rsocket.LevelRDMA, rsocket.OptIOMaps, s.o.ioMaps))
	}
	if from.IsValid() {
		program.Check(s.Bind(from))
	}
	if !to.IsValid() {
		if t == rsocket.Stream {
			program.Check(s.Listen(8))
		}
		fmt.Fprintf(out, "listening on %v\n", program.Must(s.LocalAddr()))
		return nil
	}
	if err = s.Connect(to); errors.Is(err, syscall.EINPROGRESS) {
		err = s.until(rsocket.PollOut, func() error {
			err := s.ConnectError()
			if errors.Is(err, syscall.EINPROGRESS) {
				return syscall.EAGAIN
			}
			return err
		})
	}
	program.Check(err)
	return s.connected()
}

// connected makes the calls of a connected socket block, if they are to.
func (s *socket) connected() error {
	s.blocks = s.o.wait == blocking
	return s.SetNonblock(!s.blocks)
}

// Close ends the connection after what was sent has arrived.
func (s *socket) Close() error { return errors.Join(s.Socket.Close(), s.poller.Close()) }

// dial returns the connection of either side: to the server, or of the first client.
func dial(ctx context.Context, o *options, out io.Writer) (_ *socket, err error) {
	s, err := open(ctx, o, rsocket.Stream, out)
	if err != nil || o.Server != "" {
		return s, err
	}
	defer program.Close(s, &err)
	return s.Accept()
}

// Accept waits for a client, however long it takes.
func (s *socket) Accept() (*socket, error) {
	var accepted *rsocket.Socket
	err := s.try(s.ctx, rsocket.PollIn, func() (err error) {
		accepted, _, err = s.Socket.Accept()
		return err
	})
	if err != nil {
		return nil, err
	}
	c, err := wrap(s.ctx, s.o, accepted)
	if err != nil {
		return nil, err
	}
	if err := c.connected(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// until tries a call until it need not wait, for as long as --timeout says.
func (s *socket) until(ev rsocket.Events, call func() error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if !s.blocks {
		if err := call(); !errors.Is(err, syscall.EAGAIN) {
			return err
		}
	}
	ctx, cancel := s.o.timeout.Context(s.ctx)
	defer cancel()
	if !s.blocks {
		return s.try(ctx, ev, call)
	}
	// A call that blocks in C ends with the connection.
	defer context.AfterFunc(ctx, func() { _ = s.Shutdown(rsocket.ShutBoth) })()
	err := call()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// try tries a call until it need not wait, for as long as ctx says. The cause of ctx is the error after that.
func (s *socket) try(ctx context.Context, ev rsocket.Events, call func() error) error {
	if err := s.poller.Add(s.Socket, ev); err != nil {
		return err
	}
	for {
		if err := call(); !errors.Is(err, syscall.EAGAIN) {
			return err
		}
		var err error
		if s.o.wait != nonblocking {
			_, err = s.poller.Wait(ctx)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// Read receives what there is, at least a byte.
func (s *socket) Read(b []byte) (n int, err error) {
	err = s.until(rsocket.PollIn, func() (err error) {
		n, err = s.Recv(b)
		return err
	})
	return n, err
}

// Write sends all of b.
func (s *socket) Write(b []byte) (int, error) { return s.all(b, s.Send) }

// WriteAt writes all of b at an offset of the peer's memory.
func (s *socket) WriteAt(b []byte, offset int64) (int, error) {
	return s.all(b, func(rest []byte) (int, error) {
		at := offset + int64(len(b)-len(rest))
		n, err := s.Socket.WriteAt(rest, at, 0)
		if n == 0 && err == nil {
			err = fmt.Errorf("the peer has no memory mapped at %d", at)
		}
		return n, err
	})
}

// all repeats a call with the rest of b until it has taken all.
func (s *socket) all(b []byte, call func(rest []byte) (int, error)) (done int, err error) {
	for done < len(b) && err == nil {
		err = s.until(rsocket.PollOut, func() error {
			n, err := call(b[done:])
			done += n
			return err
		})
	}
	return done, err
}
