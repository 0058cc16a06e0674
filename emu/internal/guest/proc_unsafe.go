//go:build linux

package guest

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// procBuf has room for the path of anything of a thread's, with its NUL.
type procBuf [64]byte

// path writes "/proc/TID/what" and, if there is one, a descriptor.
func (b *procBuf) path(tid int, what string, fd int) {
	p := strconv.AppendInt(append(b[:0], "/proc/"...), int64(tid), 10)
	p = append(append(p, '/'), what...)
	if fd >= 0 {
		p = strconv.AppendInt(p, int64(fd), 10)
	}
	b[len(p)] = 0
}

// readProc reads a small file of /proc at once.
func readProc(tid int, what string, fd int, buf []byte) ([]byte, unix.Errno) {
	var path procBuf
	path.path(tid, what, fd)
	f, _, e := unix.Syscall6(unix.SYS_OPENAT, 0, uintptr(unsafe.Pointer(&path)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return nil, e
	}
	n, _, e := unix.Syscall(unix.SYS_READ, f, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	_ = unix.Close(int(f))
	if e != 0 {
		return nil, e
	}
	return buf[:n], 0
}

// FDName returns what /proc shows for descriptor fd: "pipe:[7]", "/memfd:name (deleted)"; "" if it is not open.
func FDName(tid, fd int) string {
	var path procBuf
	var buf [256]byte
	if fd < 0 {
		return ""
	}
	path.path(tid, "fd/", fd)
	n, _, e := unix.RawSyscall6(unix.SYS_READLINKAT, 0,
		uintptr(unsafe.Pointer(&path)), uintptr(unsafe.Pointer(&buf)), uintptr(len(buf)), 0, 0)
	if e != 0 {
		return ""
	}
	return string(buf[:n])
}
