package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
)

// contextOp returns a slot of the ibv_context's own table, which old providers may leave empty.
func contextOp(ctx uintptr, slot int) (uintptr, error) {
	if op := cmem.At[abi.Context](ctx).Ops[slot]; op != 0 {
		return op, nil
	}
	return 0, control.ErrNoOp
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
	return l.Destroyed(ctx, ccall.Err(op, mw))
}

// MWKey returns the key of a struct ibv_mw.
func (l Lib) MWKey(mw uintptr) uint32 { return cmem.At[abi.MW](mw).RKey }
