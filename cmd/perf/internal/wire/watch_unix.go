//go:build unix

package wire

import (
	"errors"
	"syscall"
	"time"
)

func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

func isInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

func isNotOurs(err error) bool { return errors.Is(err, syscall.EADDRNOTAVAIL) }

func isUnreachable(err error) bool {
	return errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (w *Conn) watchSocket(gone func(error), spoke func()) (stop func()) {
	sc, ok := w.c.(syscall.Conn)
	if !ok {
		return func() {}
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return func() {}
	}
	w.deadline(Forever)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var b [1]byte
		closed := false
		err := raw.Read(func(fd uintptr) bool {
			n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			switch {
			case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
				return false
			case err != nil || n == 0:
				closed = true
			}
			return true
		})
		switch {
		case err != nil:
		case closed:
			gone(w.leftEarly())
		default:
			spoke()
		}
	}()
	return func() {
		w.c.SetReadDeadline(time.Unix(1, 0))
		<-done
	}
}
