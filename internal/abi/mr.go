package abi

import "structs"

// MR is struct ibv_mr (infiniband/verbs.h, rdma-core v65).
type MR struct {
	_       structs.HostLayout
	Context uintptr
	PD      uintptr
	Addr    uintptr
	Length  uintptr
	Handle  uint32
	LKey    uint32
	RKey    uint32
	_       [4]byte
}

// MRInitAttr is struct ibv_mr_init_attr (infiniband/verbs.h, rdma-core v65).
type MRInitAttr struct {
	_        structs.HostLayout
	Length   uintptr
	Access   int32
	_        [4]byte
	CompMask uint64
	IOVA     uint64
	Addr     uintptr
	FD       int32
	_        [4]byte
	FDOffset uint64
	Dmah     uintptr
	Buf      uintptr
}
