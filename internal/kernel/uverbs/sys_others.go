//go:build !linux

package uverbs

import "syscall"

var kernel = System{
	Ioctl: func(int, *Command) syscall.Errno { return syscall.ENOSYS },
	Write: func(int, []byte) (int, error) { return 0, syscall.ENOSYS },
	Map:   func(int, int64, int, Access) ([]byte, error) { return nil, syscall.ENOSYS },
}

func openFile(string, uint64) (int, error) { return -1, syscall.ENOSYS }

func checkFile(int, string, uint64) error { return syscall.ENOSYS }

func deviceNumber(major, minor uint32) uint64 { return uint64(major)<<32 | uint64(minor) }

// CloseFD exists on Linux only.
func CloseFD(int) error { return syscall.ENOSYS }

func protect(int) error { return syscall.ENOSYS }

// Read exists on Linux only.
func Read(int, []byte) error { return syscall.ENOSYS }

// ReadSome exists on Linux only.
func ReadSome(int, []byte, int) (int, error) { return 0, syscall.ENOSYS }

// Unmap exists on Linux only.
func Unmap(b []byte) error {
	if b == nil {
		return nil
	}
	return syscall.ENOSYS
}

// PageSize exists on Linux only.
func PageSize() int { return 4096 }
