package random

import (
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/ibv"
)

// memory is registered memory. With iova not 0 that is the device's address of it.
type memory struct {
	*ibv.MR
	b    []byte
	mine bool
}

const allAccess = ibv.LocalWrite | ibv.RemoteWrite | ibv.RemoteRead | ibv.RemoteAtomic

func newMemory(pd *ibv.PD, n int, iova uint64) (*memory, error) {
	if iova == 0 {
		mr, err := pd.AllocMR(n, allAccess)
		if err != nil {
			return nil, err
		}
		return &memory{MR: mr, b: mr.Bytes()[:n]}, nil
	}
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	mr, err := pd.RegMemory(uintptr(unsafe.Pointer(&b[0])), n, iova, allAccess)
	if err != nil {
		return nil, err
	}
	return &memory{MR: mr, b: b, mine: true}, nil
}

func (m *memory) Close() error {
	err := m.MR.Close()
	if m.mine && err == nil {
		err = syscall.Munmap(m.b)
		m.mine = false
	}
	return err
}
