//go:build !linux || pureverbs_native

package ccall

import "syscall"

// Ssize fails on this operating system.
func Ssize(_, _, _, _ uintptr) (int, syscall.Errno) { return -1, syscall.ENOSYS }
