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
	case isInUse(err):
		return fmt.Errorf("%w; %s may be using the port, choose one with -p", err, other)
	case isNotOurs(err):
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

// Accept waits for the client. From then on, other clients get the reply that the server is busy. If the tests of ctx
// have a secret, the client is the connection that knows it.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	secret := SecretOf(ctx)
	wait := l.client
	if secret != "" {
		wait = func() (net.Conn, error) { return l.friend(secret) }
	}
	c, err := wait()
	if err != nil {
		if cause := context.Cause(l.ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("wait for a client: %w", err)
	}
	if !l.queues && secret == "" {
		l.wg.Add(1)
		go l.refuse()
	}
	return NewConn(ctx, c, Server, l.timeout), nil
}

// client returns the first connection that says something, or keeps silent for long: one that just closes is a probe,
// of a load balancer or of a script that waits for the server.
func (l *Listener) client() (net.Conn, error) {
	for {
		c, err := l.ln.Accept()
		if err != nil {
			return nil, err
		}
		c.SetReadDeadline(time.Now().Add(probeTime))
		stop := context.AfterFunc(l.ctx, func() { c.SetReadDeadline(time.Unix(1, 0)) })
		probe := closesInSilence(c)
		stop()
		c.SetReadDeadline(time.Time{})
		if !probe {
			return c, nil
		}
		c.Close()
	}
}

// probeTime is how long a connection may be silent before it counts as a client.
const probeTime = time.Second

// refuse replies to each further client with the version "busy".
func (l *Listener) refuse() {
	defer l.wg.Done()
	for {
		c, err := l.ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || l.ctx.Err() != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
			continue
		}
		l.wg.Add(1)
		go func() {
			defer l.wg.Done()
			defer c.Close()
			defer context.AfterFunc(l.ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
			c.SetDeadline(time.Now().Add(5 * time.Second))
			b := make([]byte, versionLen)
			if _, err := io.ReadFull(c, b); err != nil {
				return
			}
			clear(b)
			copy(b, busyText)
			c.Write(b)
			io.Copy(io.Discard, c)
		}()
	}
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
