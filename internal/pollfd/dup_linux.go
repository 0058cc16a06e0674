package pollfd

import (
	"encoding/binary"
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

// ReadEvent reads one event of a completion channel, which is a number: struct ib_uverbs_comp_event_desc of
// kernel-headers/rdma/ib_user_verbs.h (v44.0). buf is for reuse.
func ReadEvent(fd uintptr, buf *[8]byte) (uint64, error) {
	switch n, err := readNow(fd, buf); {
	case err != nil:
		return 0, err
	case n != len(buf):
		return 0, unix.EIO
	}
	return binary.NativeEndian.Uint64(buf[:]), nil
}
