package abi

import "structs"

// XRCD is struct ibv_xrcd (infiniband/verbs.h, rdma-core v65).
type XRCD struct {
	_       structs.HostLayout
	Context uintptr
}

// XRCDInitAttr is struct ibv_xrcd_init_attr (infiniband/verbs.h, rdma-core v65).
type XRCDInitAttr struct {
	_        structs.HostLayout
	CompMask uint32
	FD       int32
	OFlags   int32
}

// QPOpenAttr is struct ibv_qp_open_attr (infiniband/verbs.h, rdma-core v65).
type QPOpenAttr struct {
	_         structs.HostLayout
	CompMask  uint32
	QPNum     uint32
	XRCD      uintptr
	QPContext uintptr
	QPType    uint32
	_         [4]byte
}
