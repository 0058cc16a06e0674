//go:build linux

package random

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/ibv"
)

// memory is registered memory, at an address that the caller chose if mine is set.
type memory struct {
	*ibv.MR
	b    []byte
	mine bool
}

const allAccess = ibv.LocalWrite | ibv.RemoteWrite | ibv.RemoteRead | ibv.RemoteAtomic | ibv.MWBind

func newMemory(pd *ibv.PD, n int, at uintptr) (*memory, error) {
	if at == 0 {
		mr, err := pd.AllocMR(n, allAccess, nil)
		if err != nil {
			return nil, err
		}
		return &memory{MR: mr, b: mr.Bytes()[:n]}, nil
	}
	const noReplace = 0x100000 // MAP_FIXED_NOREPLACE
	got, _, errno := syscall.Syscall6(syscall.SYS_MMAP, at, uintptr(n), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS|noReplace, ^uintptr(0), 0)
	if errno != 0 || got != at {
		return nil, fmt.Errorf("mmap of %d bytes at %#x: %#x, %w", n, at, got, errno)
	}
	b := unsafe.Slice(*(**byte)(unsafe.Pointer(&got)), n)
	mr, err := pd.RegMemory(at, n, uint64(at), allAccess)
	if err != nil {
		return nil, err
	}
	return &memory{MR: mr, b: b, mine: true}, nil
}

func (m *memory) Close() error {
	err := m.MR.Close()
	if m.mine && err == nil {
		if _, _, errno := syscall.Syscall(syscall.SYS_MUNMAP, uintptr(unsafe.Pointer(&m.b[0])), uintptr(len(m.b)),
			0); errno != 0 {
			err = errno
		}
		m.mine = false
	}
	return err
}
