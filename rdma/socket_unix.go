//go:build unix

package rdma

import (
	"net"
	"os"
	"syscall"
)

// socket is a second descriptor of a socket.
type socket struct {
	fd   int
	open bool
}

func (s *socket) of(c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if second, err := syscall.Dup(int(fd)); err == nil { // else an attempt that loses may reach the peer's Accept
			syscall.CloseOnExec(second)
			s.fd, s.open = second, true
		}
	})
}

// connected returns the connection, or nil if the socket has no peer.
func (s *socket) connected() *net.TCPConn {
	if !s.open {
		return nil
	}
	if _, err := syscall.Getpeername(s.fd); err != nil {
		return nil
	}
	f := os.NewFile(uintptr(s.fd), "socket")
	s.open = false
	defer f.Close()
	c, err := net.FileConn(f)
	if t, is := c.(*net.TCPConn); err == nil && is {
		return t
	}
	return nil
}

func (s *socket) close() {
	if s.open {
		_ = syscall.Close(s.fd)
	}
}
