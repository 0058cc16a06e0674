package abi

import "structs"

// WQ is the start of struct ibv_wq (infiniband/verbs.h, rdma-core v65), up to its
// mutex. TailShift returns where the rest is.
type WQ struct {
	_         structs.HostLayout
	Context   uintptr
	WQContext uintptr
	PD        uintptr
	CQ        uintptr
	WQNum     uint32
	Handle    uint32
	State     uint32
	WQType    uint32
	PostRecv  uintptr
}

// WQInitAttr is struct ibv_wq_init_attr (infiniband/verbs.h, rdma-core v65).
type WQInitAttr struct {
	_           structs.HostLayout
	WQContext   uintptr
	WQType      uint32
	MaxWR       uint32
	MaxSGE      uint32
	_           [4]byte
	PD          uintptr
	CQ          uintptr
	CompMask    uint32
	CreateFlags uint32
}

// WQAttr is struct ibv_wq_attr (infiniband/verbs.h, rdma-core v65).
type WQAttr struct {
	_           structs.HostLayout
	AttrMask    uint32
	WQState     uint32
	CurrWQState uint32
	Flags       uint32
	FlagsMask   uint32
}

// RWQIndTable is struct ibv_rwq_ind_table (infiniband/verbs.h, rdma-core v65).
type RWQIndTable struct {
	_            structs.HostLayout
	Context      uintptr
	IndTblHandle int32
	IndTblNum    int32
	CompMask     uint32
	_            [4]byte
}

// RWQIndTableInitAttr is struct ibv_rwq_ind_table_init_attr (infiniband/verbs.h, rdma-core v65).
type RWQIndTableInitAttr struct {
	_             structs.HostLayout
	LogIndTblSize uint32
	_             [4]byte
	IndTbl        uintptr // struct ibv_wq **
	CompMask      uint32
	_             [4]byte
}
