package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// PDNumber returns the kernel's handle of a struct ibv_pd.
func (l Lib) PDNumber(pd uintptr) uint32 { return cmem.At[abi.PD](pd).Handle }

// struct ibv_td *(*alloc_td)(struct ibv_context *, struct ibv_td_init_attr *);
// An op of verbs_context (v17), not an export, as are the next two.
func (l Lib) AllocTD(ctx uintptr) (uintptr, error) {
	return opPtr(ctx, abi.DistAllocTD, ctx, uintptr(unsafe.Pointer(new(abi.TDInitAttr))))
}

// struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *, struct ibv_parent_domain_init_attr *);
func (l Lib) AllocParentDomain(ctx, pd, td uintptr) (uintptr, error) {
	attr := &abi.ParentDomainInitAttr{PD: pd, TD: td}
	return opPtr(ctx, abi.DistAllocParentDomain, ctx, uintptr(unsafe.Pointer(attr)))
}
