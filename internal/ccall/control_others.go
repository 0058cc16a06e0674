//go:build !linux

package ccall

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrNoFunction is a call of a NULL pointer, which was not made.
var ErrNoFunction = fmt.Errorf("calling C libraries for RDMA is for Linux: %w", errors.ErrUnsupported)

func call(uintptr, ...uintptr) (uintptr, syscall.Errno, error) { return 0, 0, ErrNoFunction }
