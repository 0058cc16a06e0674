//go:build !linux

package ibv

import (
	"errors"
	"syscall"
)

func dupCloexec(int) (int, error) { return -1, errors.ErrUnsupported }

// errNoData is Linux's.
const errNoData = syscall.Errno(61)
