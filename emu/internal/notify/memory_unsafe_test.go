//go:build linux

package notify

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// addressOf is where b is. The caller keeps it where it is.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

// faccessat looks at a path that ends with a NUL.
func faccessat(path []byte) {
	_, _, _ = unix.RawSyscall(unix.SYS_FACCESSAT, ^uintptr(99), uintptr(unsafe.Pointer(&path[0])), 0)
}
