package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// contextOp returns a slot of the ibv_context's own table, which old providers may leave empty.
func contextOp(ctx uintptr, slot int) (uintptr, error) {
	if op := cmem.At[abi.Context](ctx).Ops[slot]; op != 0 {
		return op, nil
	}
	return 0, ErrNoOp
}

// struct ibv_mw *(*alloc_mw)(struct ibv_pd *, enum ibv_mw_type); inline in the header, as are the next two.
func (l Lib) AllocMW(ctx, pd uintptr, windowType uint32) (uintptr, error) {
	op, err := contextOp(ctx, abi.OpAllocMW)
	if err != nil {
		return 0, err
	}
	mw, err := ccall.Ptr(op, pd, uintptr(windowType))
	return mw, explain(ctx, err)
}

// int (*bind_mw)(struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *);
// The caller has made the checks of the header's ibv_bind_mw.
func (l Lib) BindMW(ctx, qp, mw uintptr, bind *abi.MWBind) error {
	op, err := contextOp(ctx, abi.OpBindMW)
	if err != nil {
		return err
	}
	return explain(ctx, ccall.Err(op, qp, mw, uintptr(unsafe.Pointer(bind))))
}

// int (*dealloc_mw)(struct ibv_mw *);
func (l Lib) DeallocMW(ctx, mw uintptr) error {
	op, err := contextOp(ctx, abi.OpDeallocMW)
	if err != nil {
		return err
	}
	return l.destroyed(ctx, ccall.Err(op, mw))
}

// MWKey returns the key of a struct ibv_mw.
func MWKey(mw uintptr) uint32 { return cmem.At[abi.MW](mw).RKey }

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
