package rsocket

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pureverbs/pureverbs/ibv"
)

// errRefused is returned for a socket whose file the kernel refuses to some thread.
var errRefused error = &ibv.CredentialsError{File: "rdma_cm", Err: errors.New("rsockets need the same credentials on " +
	"all threads: close the socket, and use package rdmacm, or change the credentials before the program starts")}

// beginC is begin for calls of C that are not about data.
func (s *Socket) beginC() error {
	if s.refused.Load() && !s.life.Closed() {
		return errRefused // librdmacm may crash, because the socket has no device
	}
	return s.begin()
}

// denied returns an *ibv.CredentialsError for an EACCES of a stream socket: librdmacm writes to rdma_cm's file, and
// the kernel refuses the thread.
func (s *Socket) denied(err error) error {
	var e *Error
	if s.typ != Stream || !errors.As(err, &e) || e.Errno != syscall.EACCES {
		return err
	}
	s.refused.Store(true)
	return fmt.Errorf("%s: %w", e.Op, errRefused)
}
