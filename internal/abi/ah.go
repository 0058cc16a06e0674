package abi

import "structs"

// AH is struct ibv_ah (infiniband/verbs.h, rdma-core v65).
type AH struct {
	_       structs.HostLayout
	Context uintptr
	PD      uintptr
	Handle  uint32
	_       [4]byte
}

// AHAttr is struct ibv_ah_attr (infiniband/verbs.h, rdma-core v65).
type AHAttr struct {
	_           structs.HostLayout
	GRH         GlobalRoute
	DLID        uint16
	SL          uint8
	SrcPathBits uint8
	StaticRate  uint8
	IsGlobal    uint8
	PortNum     uint8
	_           [1]byte
}
