package abi

import "structs"

// SRQ is the start of struct ibv_srq (infiniband/verbs.h, rdma-core v65), up to its mutex.
// TailShift locates the rest.
type SRQ struct {
	_          structs.HostLayout
	Context    uintptr
	SRQContext uintptr
	PD         uintptr
	Handle     uint32
	_          [4]byte
}

// SRQAttr is struct ibv_srq_attr (infiniband/verbs.h, rdma-core v65).
type SRQAttr struct {
	_        structs.HostLayout
	MaxWR    uint32
	MaxSGE   uint32
	SRQLimit uint32
}

// SRQInitAttr is struct ibv_srq_init_attr (infiniband/verbs.h, rdma-core v65).
type SRQInitAttr struct {
	_          structs.HostLayout
	SRQContext uintptr
	Attr       SRQAttr
	_          [4]byte
}

// TMCap is struct ibv_tm_cap (infiniband/verbs.h, rdma-core v65).
type TMCap struct {
	_          structs.HostLayout
	MaxNumTags uint32
	MaxOps     uint32
}

// SRQInitAttrEx is struct ibv_srq_init_attr_ex (infiniband/verbs.h, rdma-core v65).
type SRQInitAttrEx struct {
	_          structs.HostLayout
	SRQContext uintptr
	Attr       SRQAttr
	CompMask   uint32
	SRQType    uint32
	_          [4]byte
	PD         uintptr
	XRCD       uintptr
	CQ         uintptr
	TMCap      TMCap
}
