package abi

import "structs"

// CompChannel is struct ibv_comp_channel (infiniband/verbs.h, rdma-core v65).
type CompChannel struct {
	_       structs.HostLayout
	Context uintptr
	FD      int32
	Refcnt  int32
}
