package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

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

// newSocket makes a socket for an address, with the options set.
func newSocket(ctx context.Context, t rsocket.Type, addr netip.AddrPort, o *options) (*socket, error) {
	domain := rsocket.DomainINET
	if addr.Addr().Is6() {
		domain = rsocket.DomainINET6
	}
	p, err := rsocket.NewPoller()
	if err != nil {
		return nil, err
	}
	s, err := rsocket.New(domain, t)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	w := &socket{Socket: s, ctx: ctx, o: o, poller: p}
	if err := w.setOptions(t); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// setOptions sets options before the socket is connected, when the library makes what they are about.
func (s *socket) setOptions(t rsocket.Type) error {
	type option struct {
		level rsocket.Level
		name  rsocket.Option
		value int
	}
	var all []option
	if s.o.buffer > 0 {
		all = append(all, option{rsocket.LevelSocket, rsocket.OptSendBuf, s.o.buffer},
			option{rsocket.LevelSocket, rsocket.OptRecvBuf, s.o.buffer})
	}
	if t == rsocket.Stream {
		all = append(all, option{rsocket.LevelSocket, rsocket.OptReuseAddr, 1},
			option{rsocket.LevelTCP, rsocket.OptNoDelay, 1})
	}
	if s.o.ioMaps > 0 {
		all = append(all, option{rsocket.LevelRDMA, rsocket.OptIOMaps, s.o.ioMaps})
	}
	for _, o := range all {
		if err := s.SetIntOption(o.level, o.name, o.value); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the connection after what was sent has arrived.
func (s *socket) Close() error {
	return errors.Join(s.Socket.Close(), s.poller.Close())
}

// connect returns the connection of either side: to the server, or of the first client.
func connect(ctx context.Context, o *options, out io.Writer) (_ *socket, err error) {
	if o.server != "" {
		return dial(ctx, o)
	}
	l, err := listen(ctx, o, out)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return l.Accept()
}

// dial connects to the server.
func dial(ctx context.Context, o *options) (_ *socket, err error) {
	to, err := resolve(ctx, o.server, o.port)
	if err != nil {
		return nil, err
	}
	s, err := newSocket(ctx, rsocket.Stream, to, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if o.bind != "" {
		from, err := resolve(ctx, o.bind, "0")
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

// listen makes the server's socket, which clients connect to, and says where.
func listen(ctx context.Context, o *options, out io.Writer) (_ *socket, err error) {
	at, err := resolve(ctx, o.bind, o.port)
	if err != nil {
		return nil, err
	}
	s, err := newSocket(ctx, rsocket.Stream, at, o)
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
func (s *socket) Accept() (*socket, error) {
	p, err := rsocket.NewPoller()
	if err != nil {
		return nil, err
	}
	c := &socket{ctx: s.ctx, o: s.o, poller: p}
	err = s.try(s.ctx, rsocket.PollIn, func() (err error) {
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
func (s *socket) connected() error {
	s.blocks = s.o.wait == blocking
	return s.SetNonblock(!s.blocks)
}

// until tries a call until it need not wait, for as long as --timeout says.
func (s *socket) until(ev rsocket.Events, try func() error) (err error) {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if !s.blocks {
		if err = try(); !errors.Is(err, syscall.EAGAIN) {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.o.timeout, silence(s.o.timeout))
	defer cancel()
	if !s.blocks {
		return s.try(ctx, ev, try)
	}
	// A call that blocks in C ends with the connection.
	defer context.AfterFunc(ctx, func() { _ = s.Shutdown(rsocket.ShutBoth) })()
	if err = try(); err != nil && ctx.Err() != nil {
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
func (s *socket) Write(b []byte) (sent int, err error) {
	for sent < len(b) && err == nil {
		err = s.until(rsocket.PollOut, func() error {
			n, err := s.Send(b[sent:])
			sent += n
			return err
		})
	}
	return sent, err
}

// WriteAt writes all of b at an offset of the peer's memory.
func (s *socket) WriteAt(b []byte, offset int64) (written int, err error) {
	for written < len(b) && err == nil {
		err = s.until(rsocket.PollOut, func() error {
			n, err := s.Socket.WriteAt(b[written:], offset+int64(written), 0)
			if n == 0 && err == nil {
				err = fmt.Errorf("the peer has no memory mapped at %d", offset+int64(written))
			}
			written += n
			return err
		})
	}
	return written, err
}

// RecvFrom receives a datagram.
func (s *socket) RecvFrom(ctx context.Context, b []byte) (n int, from netip.AddrPort, err error) {
	err = s.try(ctx, rsocket.PollIn, func() (err error) {
		n, from, err = s.Socket.RecvFrom(b, 0)
		return err
	})
	return n, from, err
}

// SendTo sends a datagram.
func (s *socket) SendTo(b []byte, to netip.AddrPort) error {
	return s.until(rsocket.PollOut, func() error {
		_, err := s.Socket.SendTo(b, 0, to)
		return err
	})
}

// isConnected returns an error if the connection has ended.
func (s *socket) isConnected() error {
	var b [1]byte
	_, err := s.RecvFlags(b[:], rsocket.MsgPeek|rsocket.MsgDontWait)
	if errors.Is(err, syscall.EAGAIN) {
		return nil
	}
	return err
}

// silence is the error after a timeout.
func silence(after time.Duration) error {
	return fmt.Errorf("nothing for %v: the peer is gone or stuck, or a datagram was lost (--timeout waits longer)",
		after)
}

// resolve looks up a name, or reads an address, and a port. An empty host is any address of this machine.
func resolve(ctx context.Context, host, port string) (netip.AddrPort, error) {
	ip := netip.IPv4Unspecified()
	if host != "" {
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return netip.AddrPort{}, err
		}
		ip = ips[0].Unmap()
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	return netip.AddrPortFrom(ip, uint16(n)), err
}
