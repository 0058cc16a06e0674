package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// NoMR is given to C where a window is bound to nothing: librxe reads the key of the struct ibv_mr even then (rdma-core
// v44.0, providers/rxe/rxe.c:1518). The zeros behind it are the values that providers keep there.
type NoMR struct {
	mr abi.MR
	_  [208]byte
}

// Init makes n an MR of the PD of mw and returns its address. The caller keeps n, which is on the heap.
func (n *NoMR) Init(mw uintptr) uintptr {
	w := cmem.At[abi.MW](mw)
	n.mr = abi.MR{Context: w.Context, PD: w.PD}
	return cmem.Heap(unsafe.Pointer(n))
}
