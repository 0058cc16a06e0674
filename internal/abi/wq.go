package abi

import "structs"

// WQ is the start of struct ibv_wq (infiniband/verbs.h, rdma-core v65), up to its
// mutex. TailShift tells where the rest is.
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
