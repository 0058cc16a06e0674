package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// DefaultPort is perftest's port.
const DefaultPort = 18515

// Listener waits for one client and turns others away while it is served.
type Listener struct {
	ln      net.Listener
	timeout time.Duration
	wg      sync.WaitGroup
	stop    context.CancelFunc
	ctx     context.Context
	queues  bool // further clients wait for another server on the same socket
}

// Networks of Listen and Dial.
const (
	TCP  = "tcp"  // of both families
	TCP6 = "tcp6" // of IPv6 alone
)

// Listen listens on a TCP port of all addresses, or of one if addr names it.
func Listen(ctx context.Context, network, addr string, port int, timeout time.Duration) (*Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, network, net.JoinHostPort(addr, strconv.Itoa(port)))
	if err != nil {
		return nil, &MeetError{fmt.Errorf("listen on TCP port %d: %w", port, ListenHint(err, "another server"))}
	}
	return newListener(ctx, ln, timeout), nil
}

// ListenHint adds what may be the matter, and the way out; other names the program that may use the port.
func ListenHint(err error, other string) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w; %s may be using the port, choose one with -p", err, other)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; no interface of this host has the address (--bind)", err)
	}
	return err
}

// ListenFD listens on a socket that listens already, which others use after this process. Further clients wait for
// them.
func ListenFD(ctx context.Context, fd int, timeout time.Duration) (*Listener, error) {
	f := os.NewFile(uintptr(fd), "listening socket")
	if f == nil {
		return nil, fmt.Errorf("listen on descriptor %d: not a descriptor", fd)
	}
	ln, err := net.FileListener(f)
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("listen on descriptor %d: %w", fd, err)
	}
	if _, ok := ln.Addr().(*net.TCPAddr); !ok {
		ln.Close()
		return nil, fmt.Errorf("listen on descriptor %d: not a TCP socket", fd)
	}
	l := newListener(ctx, ln, timeout)
	l.queues = true
	return l, nil
}

func newListener(ctx context.Context, ln net.Listener, timeout time.Duration) *Listener {
	l := &Listener{ln: ln, timeout: timeout}
	l.ctx, l.stop = context.WithCancel(ctx)
	context.AfterFunc(l.ctx, func() { ln.Close() })
	return l
}

// Port returns the TCP port.
func (l *Listener) Port() int { return l.ln.Addr().(*net.TCPAddr).Port }

// Accept waits for the client: the first connection whose first message is a version. If the tests of ctx have a
// secret, its proof comes before that. Whatever else comes, such as a probe, a health check or another protocol, is
// closed, and strange gets its address and what is wrong with it. It may be nil. From then on, other clients get the
// reply that the server is busy; with a secret, nothing listens.
func (l *Listener) Accept(ctx context.Context, strange func(addr string, why error)) (*Conn, error) {
	if strange == nil {
		strange = func(string, error) {}
	}
	secret := SecretOf(ctx)
	ends := make(chan arrival, 1) // with the first client, or why none comes
	l.wg.Go(func() { l.admit(secret, ends, strange) })
	a := <-ends
	if secret != "" {
		l.ln.Close()
	}
	if a.err != nil {
		if cause := context.Cause(l.ctx); cause != nil {
			a.err = cause
		}
		return nil, fmt.Errorf("wait for a client: %w", a.err)
	}
	c := NewConn(ctx, a.c, Server, l.timeout)
	c.early = a.said
	return c, nil
}

// arrival is a client with its first message.
type arrival struct {
	c    net.Conn
	said []byte
	err  error
}

// GreetingTime is how long a connection may take for its first message. perftest may sleep for a second before.
const GreetingTime = 10 * time.Second

// room is how many connections are listened to at the same time, and the time that each has if more come. With a
// secret, a port scanner must not delay the client.
func room(s Secret) *Strangers {
	if s != "" {
		return &Strangers{Most: 256, Time: 100 * time.Millisecond}
	}
	return &Strangers{Most: 64, Time: time.Second}
}

// admit listens to each connection. Where further clients wait for another server, it listens to one after the other,
// up to the first client.
func (l *Listener) admit(secret Secret, ends chan<- arrival, strange func(addr string, why error)) {
	known := room(secret)
	ctx, stop := context.WithCancel(l.ctx)
	defer stop()
	var found atomic.Bool
	for {
		c, err := l.ln.Accept()
		if err != nil {
			if !found.Load() {
				found.Store(true)
				ends <- arrival{err: err}
			}
			if errors.Is(err, net.ErrClosed) || l.ctx.Err() != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
			continue
		}
		hear := func() {
			said, err := l.greeting(ctx, c, secret)
			gone := !known.Known(c) && !l.queues // it had to make room
			switch {
			case err != nil || gone:
				if ctx.Err() == nil && err != nil {
					strange(c.RemoteAddr().String(), err)
				}
				c.Close()
			case found.CompareAndSwap(false, true):
				ends <- arrival{c: c, said: said}
				if secret != "" {
					stop()
				}
			default:
				l.refuse(c)
			}
		}
		if l.queues {
			if hear(); found.Load() {
				return
			}
			continue
		}
		known.Admit(c)
		l.wg.Go(hear)
	}
}

// greeting returns the first message of a client, which is a version, after its proof.
func (l *Listener) greeting(ctx context.Context, c net.Conn, secret Secret) ([]byte, error) {
	limit := min(l.timeout, GreetingTime)
	c.SetReadDeadline(time.Now().Add(limit))
	stop := context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Unix(1, 0)) })
	if secret != "" {
		proof := make([]byte, ProofLen)
		if _, err := io.ReadFull(c, proof); err != nil || !secret.ProvedBy(proof) {
			return nil, errProof
		}
	}
	b := make([]byte, versionLen)
	for n := 0; n < len(b); {
		m, err := c.Read(b[n:])
		n += m
		switch {
		case n > 0 && !greets(b[:n]):
			return nil, fmt.Errorf("%w: it began with %s", ErrGarbage, quote(b[:n]))
		case n == len(b):
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, fmt.Errorf("%w: %d of the first %d bytes in %v", ErrSilent, n, len(b), limit)
		case err != nil:
			return nil, fmt.Errorf("%w after %d of the first %d bytes", ErrClosed, n, len(b))
		}
	}
	stop()
	c.SetReadDeadline(time.Time{})
	return b, nil
}

// refuse replies to a further client with the version "busy".
func (l *Listener) refuse(c net.Conn) {
	defer c.Close()
	defer context.AfterFunc(l.ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	b := make([]byte, versionLen)
	copy(b, busyText)
	c.Write(b)
	io.Copy(io.Discard, c)
}

// Close stops listening and waits until nothing of it is left running.
func (l *Listener) Close() error {
	l.stop()
	err := l.ln.Close()
	l.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
