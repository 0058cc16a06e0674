package abi

import "structs"

// OpsWR is struct ibv_ops_wr (infiniband/verbs.h, rdma-core v65).
type OpsWR struct {
	_      structs.HostLayout
	WRID   uint64
	Next   uintptr
	Opcode uint32
	Flags  int32
	TM     TagOp
}

// TagOp is the tm of struct ibv_ops_wr.
type TagOp struct {
	_             structs.HostLayout
	UnexpectedCnt uint32
	Handle        uint32
	RecvWRID      uint64
	SGList        uintptr
	NumSGE        int32
	_             [4]byte
	Tag           uint64
	Mask          uint64
}
