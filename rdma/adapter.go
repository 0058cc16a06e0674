package rdma

import (
	"errors"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
)

// memory is registered memory of an adapter.
type memory interface {
	blocks.Memory
	Len() int
	Remote() ibv.RemoteMemory
}

// adapter registers memory: a device's PD, or with Pipe this process's.
type adapter struct {
	pd  *ibv.PD
	mem *inmem.Adapter
}

// alloc registers n bytes of its own.
func (a *adapter) alloc(n int, access ibv.AccessFlags, opt *ibv.MemOptions) (memory, error) {
	if a.mem != nil {
		return a.mem.Register(make([]byte, n), access), nil
	}
	mr, err := a.pd.AllocMR(n, access, opt)
	if err != nil {
		return nil, err // not a nil *MR in an interface
	}
	return mr, nil
}

// register registers memory of the caller.
func (a *adapter) register(p []byte, access ibv.AccessFlags) (memory, error) {
	if a.mem != nil {
		return a.mem.Register(p, access), nil
	}
	mr, err := a.pd.RegMR(p, access)
	if err != nil {
		return nil, err
	}
	return mr, nil
}

// again registers memory once more, with addresses that begin with iova if the library can.
func (a *adapter) again(b *bufMem, iova uint64, access ibv.AccessFlags) (memory, error) {
	if a.mem != nil {
		return a.mem.Register(b.bytes(), access), nil
	}
	mr, err := a.pd.RegMemory(uintptr(b.addr), b.n, iova, access)
	if errors.Is(err, ibv.ErrNotSupported) { // libraries before v25
		mr, err = a.pd.RegMR(b.bytes(), access)
	}
	if err != nil {
		return nil, err
	}
	return mr, nil
}
