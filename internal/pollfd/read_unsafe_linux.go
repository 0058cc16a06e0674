package pollfd

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// readNow reads from a non-blocking descriptor. The scheduler is not informed, because the call does not block: telling
// it wakes its monitor thread when the process was idle, which costs more than all else about an event.
func readNow(fd uintptr, buf *[8]byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(buf)), uintptr(len(buf)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
