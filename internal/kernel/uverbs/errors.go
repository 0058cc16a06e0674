package uverbs

import (
	"fmt"
	"syscall"
)

// ReplyError reports an answer of the kernel that cannot be true. It matches EPROTO.
type ReplyError struct {
	Command string // as in "create_qp"
	Field   string
	Got     uint64
	Want    string
}

func (e *ReplyError) Error() string {
	return fmt.Sprintf("the kernel answered %s with %s %#x, want %s", e.Command, e.Field, e.Got, e.Want)
}

// Unwrap returns EPROTO.
func (e *ReplyError) Unwrap() error { return syscall.EPROTO }

// FileError reports a device file that is not the device's. It matches ENODEV.
type FileError struct {
	Path      string
	Got, Want string
}

func (e *FileError) Error() string { return fmt.Sprintf("%s is %s, want %s", e.Path, e.Got, e.Want) }

// Unwrap returns ENODEV.
func (e *FileError) Unwrap() error { return syscall.ENODEV }

// VersionError reports an interface of the kernel that this package does not know. It matches ENOSYS.
type VersionError struct {
	What string // the file of sysfs
	Got  int64  // -1 if it cannot be read
	Want int64
}

func (e *VersionError) Error() string { return fmt.Sprintf("%s is %d, want %d", e.What, e.Got, e.Want) }

// Unwrap returns ENOSYS.
func (e *VersionError) Unwrap() error { return syscall.ENOSYS }

// Check returns a *ReplyError if ok is false.
func Check(ok bool, command, field string, got uint64, want string) error {
	if ok {
		return nil
	}
	return &ReplyError{Command: command, Field: field, Got: got, Want: want}
}
