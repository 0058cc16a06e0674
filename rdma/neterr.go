package rdma

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
)

// netOp makes an error of package net: a *net.OpError, as the methods of *net.TCPConn return it, with the network of
// its addresses. io.EOF stays as it is.
func netOp(op string, source, addr net.Addr, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	at := addr
	if at == nil {
		at = source
	}
	return &net.OpError{Op: op, Net: at.Network(), Source: source, Addr: addr, Err: cause(op, err)}
}

// netError is a cause that says of itself what *net.OpError asks of it. The errors that it wraps can be found.
type netError struct {
	err                error
	text               string
	timeout, temporary bool
}

func (e *netError) Error() string   { return e.text }
func (e *netError) Unwrap() error   { return e.err }
func (e *netError) Timeout() bool   { return e.timeout }
func (e *netError) Temporary() bool { return e.temporary }

// cause returns err as the cause within a *net.OpError of an operation.
func cause(op string, err error) error {
	e := &netError{err: err, text: err.Error(), timeout: isTimeout(err)}
	var t interface{ Temporary() bool }
	e.temporary = e.timeout || errors.As(err, &t) && t.Temporary()
	inner, ours := err.(*ibv.OpError)
	if ours && inner.Op == op { // the *net.OpError has the operation and the address
		e.text = strings.TrimPrefix(e.text, strings.TrimSuffix(op+" "+inner.Object, " ")+": ")
	}
	switch {
	case err == ErrClosed, ours && inner.Err == ErrClosed:
		e.text = net.ErrClosed.Error() // some programs look for this text
	case err == os.ErrDeadlineExceeded, err == context.DeadlineExceeded, !ours && !e.timeout && !e.temporary:
		return err
	}
	return e
}

// isTimeout reports whether an error means that something took too long.
func isTimeout(err error) bool {
	var dns *net.DNSError
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, syscall.ETIMEDOUT) || errors.As(err, &dns) && dns.Timeout()
}

// hostPort is an address that was not resolved.
type hostPort struct{ network, text string }

func (a hostPort) Network() string { return a.network }
func (a hostPort) String() string  { return a.text }

// addrOf returns the address of an error about host:port, as *net.TCPAddr or *net.UDPAddr if host is an IP address.
func addrOf(network, addr string) net.Addr {
	ap, err := netip.ParseAddrPort(addr)
	switch {
	case err != nil:
		return hostPort{network, addr}
	case network == "udp":
		return net.UDPAddrFromAddrPort(ap)
	}
	return net.TCPAddrFromAddrPort(ap)
}
