//go:build !linux

package ibv

import "syscall"

// errNoData is Linux's.
const errNoData = syscall.Errno(61)
