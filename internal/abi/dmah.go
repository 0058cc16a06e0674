package abi

import "structs"

// DMAHInitAttr is struct ibv_dmah_init_attr (infiniband/verbs.h, rdma-core v65).
type DMAHInitAttr struct {
	_          structs.HostLayout
	CompMask   uint32
	CPUID      uint32
	PH         uint8
	TPHMemType uint8
	_          [2]byte
}
