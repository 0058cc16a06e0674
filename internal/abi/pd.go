package abi

import "structs"

// PD is struct ibv_pd (infiniband/verbs.h, rdma-core v65).
type PD struct {
	_       structs.HostLayout
	Context uintptr
	Handle  uint32
	_       [4]byte
}

// TD is struct ibv_td (infiniband/verbs.h, rdma-core v65).
type TD struct {
	_       structs.HostLayout
	Context uintptr
}

// TDInitAttr is struct ibv_td_init_attr (infiniband/verbs.h, rdma-core v65).
type TDInitAttr struct {
	_        structs.HostLayout
	CompMask uint32
}

// ParentDomainInitAttr is struct ibv_parent_domain_init_attr (infiniband/verbs.h, rdma-core v65).
type ParentDomainInitAttr struct {
	_         structs.HostLayout
	PD        uintptr
	TD        uintptr
	CompMask  uint32
	_         [4]byte
	Alloc     uintptr
	Free      uintptr
	PDContext uintptr
}
