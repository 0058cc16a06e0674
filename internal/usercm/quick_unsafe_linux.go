package usercm

import (
	"syscall"
	"unsafe"
)

// writeQuick is writeFD for a command that the kernel answers in a microsecond and never waits for. The scheduler is
// not told: it would take the processor away and wake another thread, which costs more than the command.
func writeQuick(fd int, b []byte) (int, error) {
	n, _, e := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)))
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
