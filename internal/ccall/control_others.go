//go:build !linux || pureverbs_native

package ccall

import (
	"errors"
	"runtime"
	"syscall"
)

// Libc fails on this operating system.
func Libc(string) (uintptr, error) { return 0, &CallError{Reason: reasonSystem} }

// Open fails.
func Open(string, int) (uintptr, error) {
	if runtime.GOOS == "linux" {
		return 0, errors.New("this program is static: build it without the tag pureverbs_native")
	}
	return 0, errors.New("not on " + runtime.GOOS)
}

// Symbol fails.
func Symbol(uintptr, string) (uintptr, error) { return 0, &CallError{Reason: reasonSystem} }

func call(fn uintptr, args ...uintptr) (uintptr, syscall.Errno, error) {
	return 0, 0, &CallError{Fn: fn, Args: len(args), Reason: reasonSystem}
}
