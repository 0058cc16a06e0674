//go:build !linux

package uverbs

import "syscall"

// ResizeCQ exists on Linux only.
func ResizeCQ(int, uint32, uintptr, uint32, uint32) error { return syscall.ENOSYS }
