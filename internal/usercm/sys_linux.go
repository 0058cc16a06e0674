package usercm

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func open(path string) (int, error) {
	for {
		fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// device returns the number of a character device.
func device(fd int) (major, minor uint32, err error) {
	var st syscall.Stat_t
	switch err := syscall.Fstat(fd, &st); {
	case err != nil:
		return 0, 0, err
	case st.Mode&syscall.S_IFMT != syscall.S_IFCHR:
		return 0, 0, syscall.ENXIO
	}
	return unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)), nil
}

func writeFD(fd int, b []byte) (int, error) { return syscall.Write(fd, b) }

func closeFD(fd int) { _ = syscall.Close(fd) }
