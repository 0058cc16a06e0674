package abi

import "structs"

// GIDEntry is struct ibv_gid_entry (infiniband/verbs.h, rdma-core v65).
type GIDEntry struct {
	_           structs.HostLayout
	_           [0]uint64 // the alignment of union ibv_gid
	GID         GID
	GIDIndex    uint32
	PortNum     uint32
	GIDType     uint32
	NdevIfindex uint32
}

// GlobalRoute is struct ibv_global_route (infiniband/verbs.h, rdma-core v65).
type GlobalRoute struct {
	_            structs.HostLayout
	_            [0]uint64 // the alignment of union ibv_gid
	DGID         GID
	FlowLabel    uint32
	SGIDIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	_            [1]byte
}

// GRH is struct ibv_grh (infiniband/verbs.h, rdma-core v65).
type GRH struct {
	_                 structs.HostLayout
	_                 [0]uint64 // the alignment of union ibv_gid
	VersionTclassFlow Be32
	Paylen            Be16
	NextHdr           uint8
	HopLimit          uint8
	SGID              GID
	DGID              GID
}

// GID is union ibv_gid (infiniband/verbs.h, rdma-core v65), in network order. The union is aligned
// to 8 bytes; structs that contain one declare that alignment.
type GID [16]byte
