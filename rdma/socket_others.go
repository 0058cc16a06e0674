//go:build !unix

package rdma

import (
	"net"
	"syscall"
)

// socket is none: an attempt by TCP that is interrupted as it connects may reach the peer's Accept.
type socket struct{}

func (s *socket) of(syscall.RawConn) error { return nil }
func (s *socket) connected() *net.TCPConn  { return nil }
func (s *socket) close()                   {}
