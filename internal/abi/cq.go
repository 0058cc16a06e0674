package abi

import "structs"

// CQ is the start of struct ibv_cq (infiniband/verbs.h, rdma-core v65), up to its mutex. TailShift
// locates the rest.
type CQ struct {
	_         structs.HostLayout
	Context   uintptr
	Channel   uintptr
	CQContext uintptr
	Handle    uint32
	CQE       int32
}

// CQInitAttrEx is struct ibv_cq_init_attr_ex (infiniband/verbs.h, rdma-core v65).
type CQInitAttrEx struct {
	_            structs.HostLayout
	CQE          uint32
	_            [4]byte
	CQContext    uintptr
	Channel      uintptr
	CompVector   uint32
	_            [4]byte
	WCFlags      uint64
	CompMask     uint32
	Flags        uint32
	ParentDomain uintptr
}

// ModerateCQ is struct ibv_moderate_cq (infiniband/verbs.h, rdma-core v65).
type ModerateCQ struct {
	_        structs.HostLayout
	CQCount  uint16
	CQPeriod uint16
}

// ModifyCQAttr is struct ibv_modify_cq_attr (infiniband/verbs.h, rdma-core v65).
type ModifyCQAttr struct {
	_        structs.HostLayout
	AttrMask uint32
	Moderate ModerateCQ
}

// PollCQAttr is struct ibv_poll_cq_attr (infiniband/verbs.h, rdma-core v65).
type PollCQAttr struct {
	_        structs.HostLayout
	CompMask uint32
}
