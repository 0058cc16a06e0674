package pollfd

import (
	"os"

	"golang.org/x/sys/unix"
)

func dupNonblock(fd int) (int, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("dup", err)
	}
	// O_NONBLOCK belongs to the open file, which the library's descriptor
	// shares: its reads now give EAGAIN and no longer block a thread.
	if err := unix.SetNonblock(dup, true); err != nil {
		_ = unix.Close(dup)
		return -1, os.NewSyscallError("fcntl", err)
	}
	return dup, nil
}
