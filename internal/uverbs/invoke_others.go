//go:build !linux

package uverbs

import "syscall"

// Refused exists on Linux only.
func Refused(int) bool { return false }

// RingSend exists on Linux only.
func RingSend(int, uint32) error { return syscall.ENOSYS }
