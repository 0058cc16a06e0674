//go:build !linux

package netlink

import "syscall"

// With exists on Linux only.
func With[T any](int, func(Ask) (T, error)) (none T, _ error) { return none, syscall.ENOSYS }
