package libibverbs

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// struct ibv_srq *ibv_create_srq(struct ibv_pd *, struct ibv_srq_init_attr *);
func (l Lib) CreateSRQ(pd uintptr, attr *abi.SRQInitAttr) (uintptr, error) {
	return l.lib.Ptr("ibv_create_srq", pd, uintptr(unsafe.Pointer(attr)))
}

// int ibv_modify_srq(struct ibv_srq *, struct ibv_srq_attr *, int attr_mask);
func (l Lib) ModifySRQ(srq uintptr, attr *abi.SRQAttr, mask uint32) error {
	return l.lib.Err("ibv_modify_srq", srq, uintptr(unsafe.Pointer(attr)), uintptr(mask))
}

// int ibv_query_srq(struct ibv_srq *, struct ibv_srq_attr *);
func (l Lib) QuerySRQ(srq uintptr, attr *abi.SRQAttr) error {
	return l.lib.Err("ibv_query_srq", srq, uintptr(unsafe.Pointer(attr)))
}

// int ibv_destroy_srq(struct ibv_srq *srq);
func (l Lib) DestroySRQ(srq uintptr) error { return l.destroy("ibv_destroy_srq", srq) }
