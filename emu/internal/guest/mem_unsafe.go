//go:build linux

package guest

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// move copies between local and remote, which are of one length and not empty. It holds the processor meanwhile: the
// call takes a few microseconds, less than handing the processor over and back.
func (m Mem) move(call uintptr, local []byte, remote []IOV) error {
	// A pointer, not its number: the stack that it may lead to can move until the call.
	l := unix.Iovec{Base: unsafe.SliceData(local), Len: uint64(len(local))}
	r := unsafe.SliceData(remote)
	for {
		var got uintptr
		var e unix.Errno
		if len(local) <= holdBytes {
			got, _, e = unix.RawSyscall6(call, uintptr(m.PID),
				uintptr(unsafe.Pointer(&l)), 1, uintptr(unsafe.Pointer(r)), uintptr(len(remote)), 0)
		} else {
			got, _, e = unix.Syscall6(call, uintptr(m.PID),
				uintptr(unsafe.Pointer(&l)), 1, uintptr(unsafe.Pointer(r)), uintptr(len(remote)), 0)
		}
		switch {
		case e == 0 && int(got) == len(local):
			return nil
		case e == unix.EINTR:
			continue
		case e == unix.ESRCH:
			return ErrGone
		default: // a short count is a fault in the middle
			return ErrFault
		}
	}
}
