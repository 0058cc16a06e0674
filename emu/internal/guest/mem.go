//go:build linux

package guest

import (
	"errors"

	"golang.org/x/sys/unix"
)

// IOV is a span of memory, with the layout of struct iovec.
type IOV struct{ Base, Len uint64 }

// Mem is the memory of a process, named by the id of any of its threads.
type Mem struct{ PID int }

var (
	// ErrFault is returned for an address that the process has not mapped, or not for this access.
	ErrFault = errors.New("bad address of the program")
	// ErrGone is returned for a process that has ended.
	ErrGone = errors.New("the program has ended")
)

// holdBytes is how much is copied, at most, without letting other goroutines have the processor.
const holdBytes = 1 << 20

// maxSpans is UIO_MAXIOV.
const maxSpans = 1024

// Read copies from addr to dst: all of it, or an error.
func (m Mem) Read(addr uint64, dst []byte) error {
	if len(dst) == 0 {
		return nil
	}
	r := [1]IOV{{addr, uint64(len(dst))}}
	return m.move(unix.SYS_PROCESS_VM_READV, dst, r[:])
}

// Write copies src to addr: all of it, or an error.
func (m Mem) Write(addr uint64, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	r := [1]IOV{{addr, uint64(len(src))}}
	return m.move(unix.SYS_PROCESS_VM_WRITEV, src, r[:])
}

// ReadV gathers remote, in order, into dst, which is as long as they are together.
func (m Mem) ReadV(dst []byte, remote []IOV) error {
	return m.vector(unix.SYS_PROCESS_VM_READV, dst, remote)
}

// WriteV scatters src to remote. The spans are written in order: who sees the last sees the others.
func (m Mem) WriteV(src []byte, remote []IOV) error {
	return m.vector(unix.SYS_PROCESS_VM_WRITEV, src, remote)
}

func (m Mem) vector(call uintptr, local []byte, remote []IOV) error {
	for len(remote) > 0 && len(local) > 0 {
		n := min(len(remote), maxSpans)
		var size uint64
		for i := range remote[:n] {
			size += remote[i].Len
		}
		if size > uint64(len(local)) {
			return ErrFault
		}
		if size > 0 {
			if err := m.move(call, local[:size], remote[:n]); err != nil {
				return err
			}
		}
		local, remote = local[size:], remote[n:]
	}
	return nil
}

// CString reads a string that ends with a NUL, of at most max bytes without it.
func (m Mem) CString(addr uint64, max int) (string, error) {
	var buf [4096]byte
	n := 0
	for n <= max && n < len(buf) {
		// Up to the end of the page: the next one may not be there.
		k := min(len(buf)-n, 256, int(4096-(addr+uint64(n))&4095))
		if err := m.Read(addr+uint64(n), buf[n:n+k]); err != nil {
			return "", err
		}
		for i := n; i < n+k; i++ {
			if buf[i] == 0 {
				return string(buf[:i]), nil
			}
		}
		n += k
	}
	return "", unix.ENAMETOOLONG
}
