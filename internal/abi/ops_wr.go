package abi

import "structs"

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
