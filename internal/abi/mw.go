package abi

import "structs"

// MW is struct ibv_mw (infiniband/verbs.h, rdma-core v65).
type MW struct {
	_       structs.HostLayout
	Context uintptr
	PD      uintptr
	RKey    uint32
	Handle  uint32
	Type    uint32
	_       [4]byte
}

// MWBindInfo is struct ibv_mw_bind_info (infiniband/verbs.h, rdma-core v65).
type MWBindInfo struct {
	_             structs.HostLayout
	MR            uintptr
	Addr          uint64
	Length        uint64
	MWAccessFlags uint32
	_             [4]byte
}

// MWBind is struct ibv_mw_bind (infiniband/verbs.h, rdma-core v65).
type MWBind struct {
	_         structs.HostLayout
	WRID      uint64
	SendFlags uint32
	_         [4]byte
	BindInfo  MWBindInfo
}
