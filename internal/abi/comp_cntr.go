package abi

import "structs"

// CompCntrCaps is struct ibv_comp_cntr_caps (infiniband/verbs.h, rdma-core v65).
type CompCntrCaps struct {
	_                    structs.HostLayout
	MaxValue             uint64
	MaxCounters          uint32
	SupportedQPAttachOps uint32
}

// CompCntrInitAttr is struct ibv_comp_cntr_init_attr (infiniband/verbs.h, rdma-core v65).
type CompCntrInitAttr struct {
	_        structs.HostLayout
	CompMask uint32
	Type     uint32
	Flags    uint32
}

// QPAttachCompCntrAttr is struct ibv_qp_attach_comp_cntr_attr (infiniband/verbs.h, rdma-core v65).
type QPAttachCompCntrAttr struct {
	_        structs.HostLayout
	CompMask uint32
	OpMask   uint32
}
