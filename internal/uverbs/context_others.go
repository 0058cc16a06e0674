//go:build !linux

package uverbs

import "syscall"

// NoInlineHeaders exists on Linux only.
func NoInlineHeaders(int) (bool, error) { return false, syscall.ENOSYS }
