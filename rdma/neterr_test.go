package rdma

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// TestNetErrors has what programs ask of an error, of each kind of cause.
func TestNetErrors(t *testing.T) {
	at := addrOf("tcp", "10.88.0.1:80")
	inner := func(op string, err error) error { return &ibv.OpError{Op: op, Object: "10.88.0.1:80", Err: err} }
	for _, c := range []struct {
		err                error
		is                 error
		timeout, temporary bool
		text               string
	}{
		{os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, true, true, "dial tcp 10.88.0.1:80: i/o timeout"},
		{context.DeadlineExceeded, context.DeadlineExceeded, true, true,
			"dial tcp 10.88.0.1:80: context deadline exceeded"},
		{inner("dial", fmt.Errorf("while waiting: %w", context.DeadlineExceeded)), context.DeadlineExceeded, true, true,
			"dial tcp 10.88.0.1:80: while waiting: context deadline exceeded"},
		{inner("dial", syscall.ETIMEDOUT), syscall.ETIMEDOUT, true, true,
			"dial tcp 10.88.0.1:80: connection timed out"},
		{inner("dial", context.Canceled), context.Canceled, false, false, "dial tcp 10.88.0.1:80: context canceled"},
		{inner("resolve", syscall.ECONNREFUSED), syscall.ECONNREFUSED, false, false,
			"dial tcp 10.88.0.1:80: resolve 10.88.0.1:80: connection refused"},
		{inner("dial", syscall.EMFILE), syscall.EMFILE, false, true, "dial tcp 10.88.0.1:80: too many open files"},
		{ErrClosed, net.ErrClosed, false, false, "dial tcp 10.88.0.1:80: use of closed network connection"},
		{inner("dial", ErrClosed), ErrClosed, false, false, "dial tcp 10.88.0.1:80: use of closed network connection"},
		{&net.DNSError{Err: "slow", Name: "host", IsTimeout: true}, nil, true, true,
			"dial tcp 10.88.0.1:80: lookup host: slow"},
		{&PeerError{Err: io.ErrUnexpectedEOF}, syscall.ECONNRESET, false, false, ""},
	} {
		err := netOp("dial", nil, at, c.err)
		ne, ok := err.(net.Error)
		var wrapped *url.Error
		_ = errors.As(&url.Error{Op: "Get", Err: err}, &wrapped)
		temporary := ne.Temporary() //lint:ignore SA1019 net/http and others still ask
		if !ok || ne.Timeout() != c.timeout || os.IsTimeout(err) != c.timeout || wrapped.Timeout() != c.timeout ||
			temporary != c.temporary {
			t.Errorf("%v: want a net.Error, timeout %v, temporary %v", err, c.timeout, c.temporary)
		}
		if c.is != nil && !errors.Is(err, c.is) || !errors.Is(err, c.err) || c.text != "" && err.Error() != c.text {
			t.Errorf("%q matches %v: %v; want text %q", err, c.is, errors.Is(err, c.is), c.text)
		}
		var have, want *ibv.OpError
		if errors.As(c.err, &want) && (!errors.As(err, &have) || have != want) {
			t.Errorf("%v: no *ibv.OpError", err)
		}
	}
	if netOp("read", nil, at, nil) != nil || netOp("read", nil, at, io.EOF) != io.EOF {
		t.Error("nil and io.EOF do not stay as they are")
	}
	for addr, want := range map[string]string{"10.88.0.1:80": "*net.TCPAddr", "[::1]:80": "*net.TCPAddr",
		"host:http": "rdma.hostPort", "": "rdma.hostPort"} {
		if a := addrOf("tcp", addr); fmt.Sprintf("%T", a) != want || a.String() != addr || a.Network() != "tcp" {
			t.Errorf("the address %q of an error is %T %v", addr, a, a)
		}
	}
}
