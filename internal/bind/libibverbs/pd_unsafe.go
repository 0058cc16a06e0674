package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
func (l Lib) AllocPD(ctx uintptr) (uintptr, error) { return l.lib.Ptr("ibv_alloc_pd", ctx) }

// int ibv_dealloc_pd(struct ibv_pd *pd);
func (l Lib) DeallocPD(pd uintptr) error { return l.destroy("ibv_dealloc_pd", pd) }

// struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle);
// Absent before v31.
func (l Lib) ImportPD(ctx uintptr, handle uint32) (uintptr, error) {
	return l.lib.Ptr("ibv_import_pd", ctx, uintptr(handle))
}

// void ibv_unimport_pd(struct ibv_pd *pd);
func (l Lib) UnimportPD(pd uintptr) error { return l.lib.Void("ibv_unimport_pd", pd) }

// PDNumber returns the kernel's handle of a struct ibv_pd.
func (l Lib) PDNumber(pd uintptr) uint32 { return cmem.At[abi.PD](pd).Handle }

// struct ibv_td *(*alloc_td)(struct ibv_context *, struct ibv_td_init_attr *);
// An op of verbs_context (v17), not an export, as are the next two.
func (l Lib) AllocTD(ctx uintptr) (uintptr, error) {
	return opPtr(ctx, abi.DistAllocTD, ctx, uintptr(unsafe.Pointer(new(abi.TDInitAttr))))
}

// int (*dealloc_td)(struct ibv_td *);
func (l Lib) DeallocTD(ctx, td uintptr) error {
	return l.Destroyed(ctx, opErr(ctx, abi.DistDeallocTD, td))
}

// struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *, struct ibv_parent_domain_init_attr *);
func (l Lib) AllocParentDomain(ctx, pd, td uintptr) (uintptr, error) {
	attr := &abi.ParentDomainInitAttr{PD: pd, TD: td}
	return opPtr(ctx, abi.DistAllocParentDomain, ctx, uintptr(unsafe.Pointer(attr)))
}
