package abi

import "structs"

// QueryDeviceExInput is struct ibv_query_device_ex_input (infiniband/verbs.h, rdma-core v65).
type QueryDeviceExInput struct {
	_        structs.HostLayout
	CompMask uint32
}

// DeviceAttr is struct ibv_device_attr (infiniband/verbs.h, rdma-core v65).
type DeviceAttr struct {
	_                     structs.HostLayout
	FWVer                 [64]byte
	NodeGUID              Be64
	SysImageGUID          Be64
	MaxMRSize             uint64
	PageSizeCap           uint64
	VendorID              uint32
	VendorPartID          uint32
	HWVer                 uint32
	MaxQP                 int32
	MaxQPWR               int32
	DeviceCapFlags        uint32
	MaxSGE                int32
	MaxSGERd              int32
	MaxCQ                 int32
	MaxCQE                int32
	MaxMR                 int32
	MaxPD                 int32
	MaxQPRdAtom           int32
	MaxEeRdAtom           int32
	MaxResRdAtom          int32
	MaxQPInitRdAtom       int32
	MaxEeInitRdAtom       int32
	AtomicCap             uint32
	MaxEe                 int32
	MaxRdd                int32
	MaxMW                 int32
	MaxRawIpv6QP          int32
	MaxRawEthyQP          int32
	MaxMcastGrp           int32
	MaxMcastQPAttach      int32
	MaxTotalMcastQPAttach int32
	MaxAH                 int32
	MaxFmr                int32
	MaxMapPerFmr          int32
	MaxSRQ                int32
	MaxSRQWR              int32
	MaxSRQSGE             int32
	MaxPkeys              uint16
	LocalCaAckDelay       uint8
	PhysPortCnt           uint8
	_                     [4]byte
}

// ODPCaps is struct ibv_odp_caps (infiniband/verbs.h, rdma-core v65).
type ODPCaps struct {
	_                structs.HostLayout
	GeneralCaps      uint64
	PerTransportCaps struct {
		_         structs.HostLayout
		RCODPCaps uint32
		UCODPCaps uint32
		UDODPCaps uint32
	}
	_ [4]byte
}

// TSOCaps is struct ibv_tso_caps (infiniband/verbs.h, rdma-core v65).
type TSOCaps struct {
	_             structs.HostLayout
	MaxTSO        uint32
	SupportedQpts uint32
}

// RSSCaps is struct ibv_rss_caps (infiniband/verbs.h, rdma-core v65).
type RSSCaps struct {
	_                          structs.HostLayout
	SupportedQpts              uint32
	MaxRwqIndirectionTables    uint32
	MaxRwqIndirectionTableSize uint32
	_                          [4]byte
	RxHashFieldsMask           uint64
	RxHashFunction             uint8
	_                          [7]byte
}

// PacketPacingCaps is struct ibv_packet_pacing_caps (infiniband/verbs.h, rdma-core v65).
type PacketPacingCaps struct {
	_              structs.HostLayout
	QPRateLimitMin uint32
	QPRateLimitMax uint32
	SupportedQpts  uint32
}

// TMCaps is struct ibv_tm_caps (infiniband/verbs.h, rdma-core v65).
type TMCaps struct {
	_              structs.HostLayout
	MaxRndvHdrSize uint32
	MaxNumTags     uint32
	Flags          uint32
	MaxOps         uint32
	MaxSGE         uint32
}

// CQModerationCaps is struct ibv_cq_moderation_caps (infiniband/verbs.h, rdma-core v65).
type CQModerationCaps struct {
	_           structs.HostLayout
	MaxCQCount  uint16
	MaxCQPeriod uint16
}

// PciAtomicCaps is struct ibv_pci_atomic_caps (infiniband/verbs.h, rdma-core v65).
type PciAtomicCaps struct {
	_           structs.HostLayout
	FetchAdd    uint16
	Swap        uint16
	CompareSwap uint16
}

// DeviceAttrEx is struct ibv_device_attr_ex (infiniband/verbs.h, rdma-core v65).
type DeviceAttrEx struct {
	_                       structs.HostLayout
	OrigAttr                DeviceAttr
	CompMask                uint32
	_                       [4]byte
	ODPCaps                 ODPCaps
	CompletionTimestampMask uint64
	HCACoreClock            uint64
	DeviceCapFlagsEx        uint64
	TSOCaps                 TSOCaps
	RSSCaps                 RSSCaps
	MaxWQTypeRQ             uint32
	PacketPacingCaps        PacketPacingCaps
	RawPacketCaps           uint32
	TMCaps                  TMCaps
	CQModCaps               CQModerationCaps
	_                       [4]byte
	MaxDMSize               uint64
	PciAtomicCaps           PciAtomicCaps
	_                       [2]byte
	XRCODPCaps              uint32
	PhysPortCntEx           uint32
}

// Device is struct ibv_device (infiniband/verbs.h, rdma-core v65). The library
// makes it; Go only reads it.
type Device struct {
	_             structs.HostLayout
	_             [2]uintptr // struct _ibv_device_ops, private
	NodeType      uint32     // enum ibv_node_type, -1 for unknown
	TransportType uint32     // enum ibv_transport_type, -1 for unknown
	Name          [64]byte
	DevName       [64]byte
	DevPath       [256]byte
	IbdevPath     [256]byte
}
