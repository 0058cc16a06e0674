//go:build unix

package selftest

import "syscall"

// quit makes a Go process print its goroutines and end.
const quit = syscall.SIGQUIT
