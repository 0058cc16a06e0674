//go:build !linux

package ibv

import "syscall"

// errNoData has the value it has on Linux.
const errNoData = syscall.Errno(61)
