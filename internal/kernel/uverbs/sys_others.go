//go:build !linux

package uverbs

import "syscall"

var kernel = system{
	ioctl: func(int, *ioctlCommand) syscall.Errno { return syscall.ENOSYS },
	write: func(int, []byte) (int, error) { return 0, syscall.ENOSYS },
}

func openFile(string, uint32, uint32) (int, error) { return -1, syscall.ENOSYS }

// CloseFD exists on Linux only.
func CloseFD(int) error { return syscall.ENOSYS }

// Protect exists on Linux only.
func Protect(int) {}

// Read exists on Linux only.
func Read(int, []byte) error { return syscall.ENOSYS }

// Map exists on Linux only.
func (f *File) Map(int64, int) ([]byte, error) { return nil, syscall.ENOSYS }

// Unmap exists on Linux only.
func Unmap([]byte) error { return syscall.ENOSYS }

// PageSize exists on Linux only.
func PageSize() int { return 4096 }
