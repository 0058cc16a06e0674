package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
// Absent before v59, as are the next two.
func (l Lib) AllocDMAH(ctx uintptr, attr *abi.DMAHInitAttr) (uintptr, error) {
	return l.lib.Ptr("ibv_alloc_dmah", ctx, uintptr(unsafe.Pointer(attr)))
}

// int ibv_dealloc_dmah(struct ibv_dmah *dmah);
func (l Lib) DeallocDMAH(dmah uintptr) error { return l.destroy("ibv_dealloc_dmah", dmah) }

// struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);
func (l Lib) RegMREx(pd uintptr, attr *abi.MRInitAttr) (uintptr, error) {
	return l.lib.Ptr("ibv_reg_mr_ex", pd, uintptr(unsafe.Pointer(attr)))
}

// struct ibv_mr *(*alloc_null_mr)(struct ibv_pd *pd); an op of verbs_context, absent before v20.
func (l Lib) AllocNullMR(ctx, pd uintptr) (uintptr, error) {
	return opPtr(ctx, abi.DistAllocNullMR, pd)
}
