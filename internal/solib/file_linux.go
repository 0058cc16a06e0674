package solib

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// open is os.Open without the runtime's poller, which ends a process that has no descriptor left for it.
func open(path string) (*os.File, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		switch err {
		case unix.EINTR:
		case nil:
			_ = unix.SetNonblock(fd, false) // else os.NewFile takes the poller
			return os.NewFile(uintptr(fd), path), nil
		default:
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}
