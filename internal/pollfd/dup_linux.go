package pollfd

import (
	"encoding/binary"
	"errors"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Dup returns a duplicate of a descriptor.
func Dup(fd int) (int, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return dup, os.NewSyscallError("dup", err)
}

// prepare makes a descriptor fit for the runtime's poller.
func prepare(fd int) error {
	if err := sparePoller(); err != nil {
		return os.NewSyscallError("pipe2", err)
	}
	// O_NONBLOCK belongs to the open file, which a duplicate shares:
	// the library's reads now give EAGAIN and no longer block a thread.
	return os.NewSyscallError("fcntl", unix.SetNonblock(fd, true))
}

func closeFD(fd int) { _ = unix.Close(fd) }

var polled atomic.Bool // the runtime's poller is open, or can be

// sparePoller returns an error if the two descriptors cannot be opened that the runtime's poller may need for the first
// file: it ends the process if it cannot.
func sparePoller() error {
	if polled.Load() {
		return nil
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	polled.Store(true)
	return errors.Join(unix.Close(p[0]), unix.Close(p[1]))
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
