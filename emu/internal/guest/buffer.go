//go:build linux

package guest

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// MapBuffer maps n bytes at offset off of the buffer behind a process's descriptor, shared with whoever else has it: a
// dma-buf, or with memfds a memfd too. The pages of the range begin at the result's first byte; skip is how far into
// them off is. Unmap with unix.Munmap. Errors are those of a kernel that looks for a dma-buf.
func MapBuffer(pid, fd int, off, n uint64, memfds bool) (b []byte, skip uint64, e unix.Errno) {
	name := FDName(pid, fd)
	switch {
	case name == "":
		return nil, 0, unix.EBADF
	case !strings.HasPrefix(name, "/dmabuf:") && !(memfds && strings.HasPrefix(name, "/memfd:")):
		return nil, 0, unix.EINVAL
	}
	f, err := TakeFD(pid, fd)
	if err != nil {
		return nil, 0, unix.EBADF
	}
	defer unix.Close(f)
	size, err := unix.Seek(f, 0, 2)
	if err != nil {
		return nil, 0, unix.EINVAL
	}
	if off+n < off || off+n > uint64(size) {
		return nil, 0, unix.EINVAL
	}
	page := uint64(os.Getpagesize())
	skip = off % page
	b, err = unix.Mmap(f, int64(off-skip), int(n+skip), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, 0, unix.EOPNOTSUPP // an exporter whose memory no processor can reach
	}
	return b, skip, 0
}

// TakeFD returns a descriptor of ours for that of a process, which any of its threads names.
func TakeFD(tid, fd int) (int, error) {
	pid, err := TGID(tid)
	if err != nil {
		return -1, err
	}
	p, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(p)
	return unix.PidfdGetfd(p, fd, 0)
}
