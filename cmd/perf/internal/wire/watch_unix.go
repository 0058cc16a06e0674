//go:build unix

package wire

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// peek waits until a socket has something to read, or is closed, by an error or without one, or the deadline is over.
func peek(raw syscall.RawConn) (closed bool, cause, err error) {
	var b [1]byte
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
			return false
		case err != nil || n == 0:
			closed, cause = true, err
		}
		return true
	})
	return closed, cause, err
}

// rawOf returns a connection's socket, nil if it has none.
func rawOf(c net.Conn) syscall.RawConn {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

func (w *Conn) watchSocket(gone func(error), spoke func()) (stop func()) {
	raw := rawOf(w.c)
	if raw == nil {
		return func() {}
	}
	w.until(w.c.SetReadDeadline, time.Time{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		closed, cause, err := peek(raw)
		switch {
		case err != nil:
		case closed:
			gone(w.leftEarly(cause))
		default:
			spoke()
		}
	}()
	return func() {
		w.c.SetReadDeadline(time.Unix(1, 0))
		<-done
	}
}
