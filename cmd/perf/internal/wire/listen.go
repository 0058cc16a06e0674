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

// Listen listens on a TCP port of all addresses, or of one if addr names it.
func Listen(ctx context.Context, addr string, port int, timeout time.Duration) (*Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", net.JoinHostPort(addr, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen on TCP port %d: %w; another server may be using it, choose one with -p", port,
			err)
	}
	return newListener(ctx, ln, timeout), nil
}

// ListenFD listens on a socket that listens already, which others use after this process. Further clients wait for
// them.
func ListenFD(ctx context.Context, fd int, timeout time.Duration) (*Listener, error) {
	f := os.NewFile(uintptr(fd), "listening socket")
	if f == nil {
		return nil, fmt.Errorf("listen on descriptor %d: it is none", fd)
	}
	ln, err := net.FileListener(f)
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("listen on descriptor %d: %w", fd, err)
	}
	if _, ok := ln.Addr().(*net.TCPAddr); !ok {
		ln.Close()
		return nil, fmt.Errorf("listen on descriptor %d: it is no TCP socket", fd)
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

// Accept waits for the client. From then on, other clients are told that the
// server is busy.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	c, err := l.ln.Accept()
	if err != nil {
		if cause := context.Cause(l.ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("wait for a client: %w", err)
	}
	if !l.queues {
		l.wg.Add(1)
		go l.refuse()
	}
	return NewConn(ctx, c, Server, l.timeout), nil
}

// refuse answers each further client with a version that says "busy".
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

// Dial connects to a server. While nobody listens it tries again for patience,
// so that both ends can be started together.
func Dial(ctx context.Context, from, host string, port int, timeout, patience time.Duration) (*Conn, error) {
	c, err := DialTCP(ctx, from, host, port, timeout, patience)
	if err != nil {
		return nil, err
	}
	return NewConn(ctx, c, Client, timeout), nil
}

// DialTCP connects a socket, from an address of this machine if one is named. It tries again for patience while nobody
// listens, or while the name is not known yet.
func DialTCP(ctx context.Context, from, host string, port int, timeout, patience time.Duration) (net.Conn, error) {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	end := time.Now().Add(patience)
	for {
		d := net.Dialer{Timeout: timeout}
		if from != "" {
			d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
		}
		c, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("connect to %s: %w", addr, context.Cause(ctx))
		}
		hint, again := "", false
		var dns *net.DNSError
		var timed net.Error
		switch {
		case isRefused(err):
			hint, again = "; no server is listening there, or a stock one is serving another client", true
		case errors.As(err, &dns):
			again = dns.IsNotFound || dns.IsTemporary || dns.IsTimeout
		case errors.As(err, &timed) && timed.Timeout():
			hint = fmt.Sprintf("; nothing answered for %v: the host is down, or a firewall drops TCP port %d", timeout,
				port)
		}
		if !again || time.Now().After(end) {
			return nil, fmt.Errorf("connect to %s: %w%s", addr, err, hint)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}
