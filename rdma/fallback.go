package rdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/attempts"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// cameByTCP is the reason of a listener's streams that TCP carries.
const cameByTCP = "the peer came by TCP"

// fallbackLogged is set when the log has a line about TCP.
var fallbackLogged atomic.Bool

func logFallback(l *slog.Logger, addr, why string) {
	if !fallbackLogged.Swap(true) {
		link.Warn(l, "rdma: TCP carries a stream, because Options.Fallback is set; this is said once", "address", addr,
			"why", why)
	}
}

// tcpStream is a stream that TCP carries.
type tcpStream struct {
	*net.TCPConn
	why  string          // TCP
	open context.Context // ends with the connection; its cause is why
	end  context.CancelCauseFunc
}

func newTCPStream(c net.Conn, why string) *Stream {
	t := &tcpStream{TCPConn: c.(*net.TCPConn), why: why}
	t.open, t.end = context.WithCancelCause(context.Background())
	return &Stream{tcp: t, local: c.LocalAddr().(*net.TCPAddr), remote: c.RemoteAddr().(*net.TCPAddr)}
}

// note ends the connection if an error means that it has ended.
func (t *tcpStream) note(n int, err error) (int, error) {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ETIMEDOUT) {
		t.end(err)
	}
	return n, err
}

func (t *tcpStream) Read(p []byte) (int, error)  { return t.note(t.TCPConn.Read(p)) }
func (t *tcpStream) Write(p []byte) (int, error) { return t.note(t.TCPConn.Write(p)) }

func (t *tcpStream) Close() error {
	t.end(ErrClosed)
	if err := t.TCPConn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil // it was closed before, which is no mistake
}

// dialEither dials by RDMA, and by TCP as well once that has failed or takes long. The first connection wins, and the
// listener's Accept returns no other.
func dialEither(ctx context.Context, addr string, opt *Options) (*Stream, error) {
	fail := func(err error) (*Stream, error) { return nil, &ibv.OpError{Op: "dial", Object: addr, Err: err} }
	if err := opt.check(callDialStream); err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, opt.dialTime())
	defer cancel()
	var finish attempts.Finish
	var rdmaErr, tcpErr error // written by one goroutine each, and read when both have failed
	after := cmp.Or(opt.fallbackAfter, attempts.Delay)
	s, err := attempts.Race(ctx, after, func(ctx context.Context, _ error) (s *Stream, err error) {
		s, err = dialRDMA(ctx, addr, opt, &finish)
		rdmaErr = err
		return s, err
	}, func(ctx context.Context, before error) (*Stream, error) {
		why := fmt.Sprintf("no connection by RDMA within %v", after)
		if before != nil {
			why = before.Error()
		}
		c, err := attempts.Whole(ctx, &finish, func(ctx context.Context) (*net.TCPConn, error) {
			return dialTCP(ctx, addr, opt.LocalAddr)
		})
		if err != nil {
			tcpErr = err
			return nil, err
		}
		return newTCPStream(c, why), nil
	}, func(s *Stream) { _ = s.CloseNow() })
	if err != nil {
		if tcpErr == nil {
			tcpErr = ctx.Err() // there was no time left for TCP
		}
		return fail(fmt.Errorf("%w; and by TCP: %w", rdmaErr, tcpErr))
	}
	if s.tcp != nil {
		logFallback(opt.Logger, addr, s.tcp.why)
	}
	return s, nil
}

// dialTCP makes a connection to host:port, with the same rules as RDMA.
func dialTCP(ctx context.Context, addr string, from netip.AddrPort) (*net.TCPConn, error) {
	addrs, err := lookUp(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return attempts.Dial(ctx, addrs, from.Addr(), func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
		return dialTCPAddr(ctx, to, from)
	}, func(c *net.TCPConn) { _ = c.Close() })
}

// dialTCPAddr makes a connection to an address. Package net would close it if ctx ends after the peer has got it and
// before this side knows. So a second descriptor of the socket is kept, and the connection is returned.
func dialTCPAddr(ctx context.Context, to, from netip.AddrPort) (*net.TCPConn, error) {
	var second socket
	defer second.close()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error { return second.of(c) }}
	if from.Addr().IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(from)
	}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err == nil {
		return c.(*net.TCPConn), nil
	}
	if t := second.connected(); t != nil {
		return t, nil
	}
	return nil, err
}

// eitherListener is the listener of streams with Options.Fallback: RDMA, if there is any, and TCP on the same port.
type eitherListener struct {
	rdma    *listener // nil if there is no RDMA
	tcp     net.Listener
	refused *tally // of rdma, if there is RDMA
	ready   chan *Stream
	errs    chan error // of TCP: another accept may succeed
	ctx     context.Context
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// samePortTries is how often a free port of RDMA is tried whose number is not free for TCP.
const samePortTries = 32

func listenEither(ctx context.Context, addr string, opt *Options) (*eitherListener, error) {
	fail := func(err error) (*eitherListener, error) {
		return nil, &ibv.OpError{Op: "listen", Object: addr, Err: err}
	}
	if err := opt.check(callListenStream); err != nil {
		return fail(err)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fail(err)
	}
	l := &eitherListener{ready: make(chan *Stream), errs: make(chan error)}
	var lc net.ListenConfig
	for try := 1; ; try++ {
		var rdmaErr error
		l.rdma, rdmaErr = listen(ctx, addr, wire.Stream, opt)
		at := addr
		switch {
		case errors.Is(rdmaErr, syscall.EADDRINUSE): // clients would reach somebody else by RDMA
			return nil, rdmaErr
		case rdmaErr == nil:
			at = net.JoinHostPort(host, strconv.Itoa(int(l.rdma.addr().Port())))
		}
		if l.tcp, err = lc.Listen(ctx, "tcp", at); err == nil {
			if rdmaErr != nil {
				logFallback(opt.Logger, addr, rdmaErr.Error())
			}
			break
		}
		if rdmaErr != nil {
			return fail(fmt.Errorf("%w; and by TCP: %w", rdmaErr, err))
		}
		err = errors.Join(err, l.rdma.close())
		if port != "0" || try == samePortTries {
			return fail(err)
		}
	}
	l.refused = new(tally)
	if l.rdma != nil {
		l.refused = &l.rdma.refused
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	chosen := *opt
	l.done.Go(func() { l.acceptTCP(&chosen) })
	if l.rdma != nil {
		l.done.Go(l.acceptRDMA)
	}
	return l, nil
}

func (l *eitherListener) acceptTCP(opt *Options) {
	authorize := newAuthorizer(opt)
	for {
		c, err := l.tcp.Accept()
		if err != nil {
			select {
			case l.errs <- err:
				continue
			case <-l.ctx.Done():
				return
			}
		}
		local, remote := c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)
		authorize.ask(l.ctx, &l.done, ConnRequest{LocalAddr: local.AddrPort(), RemoteAddr: remote.AddrPort()},
			func(_ wire.RejectReason, err error) {
				if err != nil {
					l.refused.add()
					_ = c.Close()
					return
				}
				logFallback(opt.Logger, c.RemoteAddr().String(), cameByTCP)
				l.offer(newTCPStream(c, cameByTCP))
			})
	}
}

// acceptRDMA ends with the device; TCP goes on.
func (l *eitherListener) acceptRDMA() {
	for {
		c, err := l.rdma.accept(l.ctx)
		if err != nil {
			if l.ctx.Err() == nil {
				link.Warn(l.rdma.opt.Logger, "rdma: a listener goes on by TCP alone", "address", l.rdma.addr(), "why",
					err)
			}
			return
		}
		l.offer(newStream(c))
	}
}

func (l *eitherListener) offer(s *Stream) {
	select {
	case l.ready <- s:
	case <-l.ctx.Done():
		_ = s.Close()
	}
}

func (l *eitherListener) accept(ctx context.Context) (*Stream, error) {
	fail := func(err error) (*Stream, error) {
		return nil, &ibv.OpError{Op: "accept", Object: l.addr().String(), Err: err}
	}
	if l.ctx.Err() != nil {
		return fail(ErrClosed)
	}
	select {
	case s := <-l.ready:
		return s, nil
	case err := <-l.errs:
		return fail(err)
	case <-l.ctx.Done():
		return fail(ErrClosed)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *eitherListener) addr() net.Addr {
	if l.rdma == nil {
		return l.tcp.Addr()
	}
	return net.TCPAddrFromAddrPort(l.rdma.addr())
}

func (l *eitherListener) close() error {
	l.stop()
	err := l.tcp.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	if l.rdma != nil {
		err = errors.Join(err, l.rdma.close())
	}
	l.done.Wait()
	return err
}
