package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/bind"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// contextOp returns a slot of the ibv_context's own table, which old providers may leave empty.
func contextOp(ctx uintptr, slot int) uintptr { return cmem.At[abi.Context](ctx).Ops[slot] }

// struct ibv_mw *(*alloc_mw)(struct ibv_pd *, enum ibv_mw_type); inline in the header, as are the next two.
func (l Lib) AllocMW(ctx, pd uintptr, windowType uint32) (uintptr, error) {
	return bind.OpPtr(ctx, contextOp(ctx, abi.OpAllocMW), pd, uintptr(windowType))
}

// int (*bind_mw)(struct ibv_qp *, struct ibv_mw *, struct ibv_mw_bind *);
// The caller has made the checks of the header's ibv_bind_mw.
func (l Lib) BindMW(ctx, qp, mw uintptr, attr *abi.MWBind) error {
	return bind.OpErr(ctx, contextOp(ctx, abi.OpBindMW), qp, mw, uintptr(unsafe.Pointer(attr)))
}

// int (*dealloc_mw)(struct ibv_mw *);
func (l Lib) DeallocMW(ctx, mw uintptr) error {
	return l.Destroyed(ctx, bind.OpErr(ctx, contextOp(ctx, abi.OpDeallocMW), mw))
}

// MWKey returns the key of a struct ibv_mw.
func (l Lib) MWKey(mw uintptr) uint32 { return cmem.At[abi.MW](mw).RKey }
