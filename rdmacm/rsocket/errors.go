package rsocket

import (
	"strings"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
)

// Sentinels, for errors.Is.
var (
	// ErrClosed is returned when the socket or the poller was closed. It matches
	// net.ErrClosed.
	ErrClosed = ibv.ErrClosed
	// ErrNotSupported is returned when the library or the operating system lacks a feature.
	ErrNotSupported = ibv.ErrNotSupported
)

// Error reports a call that failed.
type Error struct {
	Op     string // the C function: "rconnect"
	Object string // an address, an option; may be empty
	Errno  syscall.Errno
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Object != "" {
		b.WriteString(" " + e.Object)
	}
	b.WriteString(": " + e.Errno.Error())
	if h := e.hint(); h != "" {
		b.WriteString(" (" + h + ")")
	}
	return b.String()
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Is reports whether target is ErrNotSupported and the library lacks the feature.
func (e *Error) Is(target error) bool {
	return target == ErrNotSupported && (e.Errno == syscall.ENOTSUP || e.Errno == syscall.ENOSYS)
}

// Timeout reports whether the call would have blocked, or the peer did not respond.
func (e *Error) Timeout() bool { return e.Errno.Timeout() }

// Temporary is the method of package net's Error; use Timeout.
func (e *Error) Temporary() bool { return e.Errno.Temporary() }

// hint returns what to do about the error, if that is known.
func (e *Error) hint() string {
	switch e.Errno {
	case syscall.EAGAIN:
		return "would block; wait with a Poller"
	case syscall.EINPROGRESS:
		return "wait for PollOut with a Poller, then call ConnectError"
	case syscall.EACCES:
		return "a port below net.ipv4.ip_unprivileged_port_start requires CAP_NET_BIND_SERVICE"
	case syscall.ENODEV:
		return "no RDMA device has the address"
	case syscall.ENOENT:
		return "on RoCE rsockets have streams only: their datagrams need InfiniBand"
	case syscall.ECONNREFUSED:
		return "no rsocket listens there"
	case syscall.EADDRINUSE:
		return "another socket has the address: choose another port, or SetReuseAddr"
	case syscall.EADDRNOTAVAIL:
		return "no RDMA device of this host has the address"
	case syscall.ETIMEDOUT:
		return "the peer does not answer"
	case syscall.ENOTCONN:
		return "connect first"
	case syscall.ENOTSUP:
		return "rsockets have no such domain, type, flag or option"
	}
	return ""
}

// The errors of a socket that is not ready, allocated once.
var (
	errReadAgain  error = &Error{Op: "rread", Errno: syscall.EAGAIN}
	errWriteAgain error = &Error{Op: "rwrite", Errno: syscall.EAGAIN}
)
