//go:build !linux || pureverbs_native

package ccall

import "syscall"

// Libc fails on this operating system.
func Libc(string) (uintptr, error) { return 0, &CallError{Reason: reasonSystem} }

func call(fn uintptr, args ...uintptr) (uintptr, syscall.Errno, error) {
	return 0, 0, &CallError{Fn: fn, Args: len(args), Reason: reasonSystem}
}
