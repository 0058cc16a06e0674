package uverbs

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const verbsIoctl = 0xc0181b01 // C: RDMA_VERBS_IOCTL

// kernel has the system calls.
var kernel = System{
	Ioctl: func(fd int, c *Command) syscall.Errno {
		for {
			_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), verbsIoctl, uintptr(unsafe.Pointer(c)))
			if e != syscall.EINTR {
				return e
			}
		}
	},
	Write: func(fd int, b []byte) (n int, err error) {
		for {
			if n, err = syscall.Write(fd, b); err != syscall.EINTR {
				return n, err
			}
		}
	},
	Map: func(fd int, off int64, n int, a Access) ([]byte, error) {
		prot := 0
		if a&Readable != 0 {
			prot |= unix.PROT_READ
		}
		if a&Writable != 0 {
			prot |= unix.PROT_WRITE
		}
		return unix.Mmap(fd, off, n, prot, unix.MAP_SHARED)
	},
}

// openFile opens a file that must be the character device of this number.
func openFile(path string, number uint64) (int, error) {
	var fd int
	var err error
	for {
		if fd, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return -1, err
	}
	if err := checkFile(fd, path, number); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// checkFile returns an error unless fd is the character device of this number.
func checkFile(fd int, path string, number uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	got := "not a character device"
	if st.Mode&unix.S_IFMT == unix.S_IFCHR {
		if st.Rdev == number {
			return nil
		}
		got = deviceText(st.Rdev)
	}
	return &FileError{Path: path, Got: got, Want: deviceText(number) + ", which the kernel names"}
}

func deviceNumber(major, minor uint32) uint64 { return unix.Mkdev(major, minor) }

func deviceText(n uint64) string { return fmt.Sprintf("device %d:%d", unix.Major(n), unix.Minor(n)) }

// CloseFD closes a descriptor that the kernel gave.
func CloseFD(fd int) error { return unix.Close(fd) }

// protect makes a descriptor close on exec.
func protect(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
	return err
}

// Read reads one event of exactly len(b) bytes. The file of a removed device ends: that is EIO.
func Read(fd int, b []byte) error {
	n, err := ReadSome(fd, b, 0)
	if err != nil {
		return err
	}
	return Check(n == len(b), "read", "bytes of an event", uint64(n), "all of them")
}

// ReadSome reads one event of least to len(b) bytes, and returns how many it has.
func ReadSome(fd int, b []byte, least int) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, syscall.EIO
		}
		if n < least {
			return n, Check(false, "read", "bytes of an event", uint64(n), fmt.Sprintf("%d or more", least))
		}
		return n, nil
	}
}

// Unmap undoes Map. Without memory it does nothing.
func Unmap(b []byte) error {
	if b == nil {
		return nil
	}
	return unix.Munmap(b)
}

// PageSize returns the size of a page.
func PageSize() int { return os.Getpagesize() }
