package abi

import "structs"

// FlowAttr is struct ibv_flow_attr (infiniband/verbs.h, rdma-core v65). Its specs follow it, each with its own size.
type FlowAttr struct {
	_          structs.HostLayout
	CompMask   uint32
	Type       uint32
	Size       uint16
	Priority   uint16
	NumOfSpecs uint8
	Port       uint8
	_          [2]byte
	Flags      uint32
}

// FlowEthFilter is struct ibv_flow_eth_filter (infiniband/verbs.h, rdma-core v65).
type FlowEthFilter struct {
	_         structs.HostLayout
	DstMAC    [6]byte
	SrcMAC    [6]byte
	EtherType Be16
	VLANTag   Be16
}

// FlowSpecEth is struct ibv_flow_spec_eth (infiniband/verbs.h, rdma-core v65).
type FlowSpecEth struct {
	_    structs.HostLayout
	Type uint32
	Size uint16
	Val  FlowEthFilter
	Mask FlowEthFilter
}

// FlowIPv4Filter is struct ibv_flow_ipv4_filter (infiniband/verbs.h, rdma-core v65).
type FlowIPv4Filter struct {
	_     structs.HostLayout
	SrcIP Be32
	DstIP Be32
}

// FlowSpecIPv4 is struct ibv_flow_spec_ipv4 (infiniband/verbs.h, rdma-core v65).
type FlowSpecIPv4 struct {
	_    structs.HostLayout
	Type uint32
	Size uint16
	_    [2]byte
	Val  FlowIPv4Filter
	Mask FlowIPv4Filter
}

// FlowIPv4ExtFilter is struct ibv_flow_ipv4_ext_filter (infiniband/verbs.h, rdma-core v65).
type FlowIPv4ExtFilter struct {
	_     structs.HostLayout
	SrcIP Be32
	DstIP Be32
	Proto uint8
	TOS   uint8
	TTL   uint8
	Flags uint8
}

// FlowSpecIPv4Ext is struct ibv_flow_spec_ipv4_ext (infiniband/verbs.h, rdma-core v65).
type FlowSpecIPv4Ext struct {
	_    structs.HostLayout
	Type uint32
	Size uint16
	_    [2]byte
	Val  FlowIPv4ExtFilter
	Mask FlowIPv4ExtFilter
}

// FlowIPv6Filter is struct ibv_flow_ipv6_filter (infiniband/verbs.h, rdma-core v65).
type FlowIPv6Filter struct {
	_            structs.HostLayout
	SrcIP        [16]byte
	DstIP        [16]byte
	FlowLabel    Be32
	NextHdr      uint8
	TrafficClass uint8
	HopLimit     uint8
	_            uint8
}

// FlowSpecIPv6 is struct ibv_flow_spec_ipv6 (infiniband/verbs.h, rdma-core v65).
type FlowSpecIPv6 struct {
	_    structs.HostLayout
	Type uint32
	Size uint16
	_    [2]byte
	Val  FlowIPv6Filter
	Mask FlowIPv6Filter
}

// FlowTCPUDPFilter is struct ibv_flow_tcp_udp_filter (infiniband/verbs.h, rdma-core v65).
type FlowTCPUDPFilter struct {
	_       structs.HostLayout
	DstPort Be16
	SrcPort Be16
}

// FlowSpecTCPUDP is struct ibv_flow_spec_tcp_udp (infiniband/verbs.h, rdma-core v65).
type FlowSpecTCPUDP struct {
	_    structs.HostLayout
	Type uint32
	Size uint16
	Val  FlowTCPUDPFilter
	Mask FlowTCPUDPFilter
	_    [2]byte
}

// FlowESPFilter is struct ibv_flow_esp_filter (infiniband/verbs.h, rdma-core v65).
type FlowESPFilter struct {
	_   structs.HostLayout
	SPI Be32
	Seq Be32
}

// FlowSpecESP is struct ibv_flow_spec_esp (infiniband/verbs.h, rdma-core v65).
type FlowSpecESP struct {
	_    structs.HostLayout
	Type uint32
	Size uint16
	_    [2]byte
	Val  FlowESPFilter
	Mask FlowESPFilter
}

// FlowTunnelFilter is struct ibv_flow_tunnel_filter (infiniband/verbs.h, rdma-core v65).
type FlowTunnelFilter struct {
	_        structs.HostLayout
	TunnelID Be32
}

// FlowSpecTunnel is struct ibv_flow_spec_tunnel (infiniband/verbs.h, rdma-core v65).
type FlowSpecTunnel struct {
	_    structs.HostLayout
	Type uint32
	Size uint16
	_    [2]byte
	Val  FlowTunnelFilter
	Mask FlowTunnelFilter
}

// FlowGREFilter is struct ibv_flow_gre_filter (infiniband/verbs.h, rdma-core v65).
type FlowGREFilter struct {
	_          structs.HostLayout
	CKsRes0Ver Be16
	Protocol   Be16
	Key        Be32
}

// FlowSpecGRE is struct ibv_flow_spec_gre (infiniband/verbs.h, rdma-core v65).
type FlowSpecGRE struct {
	_    structs.HostLayout
	Type uint32
	Size uint16
	_    [2]byte
	Val  FlowGREFilter
	Mask FlowGREFilter
}

// FlowMPLSFilter is struct ibv_flow_mpls_filter (infiniband/verbs.h, rdma-core v65).
type FlowMPLSFilter struct {
	_     structs.HostLayout
	Label Be32
}

// FlowSpecMPLS is struct ibv_flow_spec_mpls (infiniband/verbs.h, rdma-core v65).
type FlowSpecMPLS struct {
	_    structs.HostLayout
	Type uint32
	Size uint16
	_    [2]byte
	Val  FlowMPLSFilter
	Mask FlowMPLSFilter
}

// FlowSpecActionTag is struct ibv_flow_spec_action_tag (infiniband/verbs.h, rdma-core v65).
type FlowSpecActionTag struct {
	_     structs.HostLayout
	Type  uint32
	Size  uint16
	_     [2]byte
	TagID uint32
}

// FlowSpecActionDrop is struct ibv_flow_spec_action_drop (infiniband/verbs.h, rdma-core v65).
type FlowSpecActionDrop struct {
	_    structs.HostLayout
	Type uint32
	Size uint16
	_    [2]byte
}

// FlowSpecActionHandle is struct ibv_flow_spec_action_handle (infiniband/verbs.h, rdma-core v65).
type FlowSpecActionHandle struct {
	_      structs.HostLayout
	Type   uint32
	Size   uint16
	_      [2]byte
	Action uintptr
}

// FlowSpecCounterAction is struct ibv_flow_spec_counter_action (infiniband/verbs.h, rdma-core v65).
type FlowSpecCounterAction struct {
	_        structs.HostLayout
	Type     uint32
	Size     uint16
	_        [2]byte
	Counters uintptr
}

// CountersInitAttr is struct ibv_counters_init_attr (infiniband/verbs.h, rdma-core v65).
type CountersInitAttr struct {
	_        structs.HostLayout
	CompMask uint32
}

// CounterAttachAttr is struct ibv_counter_attach_attr (infiniband/verbs.h, rdma-core v65).
type CounterAttachAttr struct {
	_           structs.HostLayout
	CounterDesc uint32
	Index       uint32
	CompMask    uint32
}

// FlowActionESPAttr is struct ibv_flow_action_esp_attr (infiniband/verbs.h, rdma-core v65).
type FlowActionESPAttr struct {
	_           structs.HostLayout
	ESPAttr     uintptr
	KeymatProto uint32
	KeymatLen   uint16
	_           [2]byte
	KeymatPtr   uintptr
	ReplayProto uint32
	ReplayLen   uint16
	_           [2]byte
	ReplayPtr   uintptr
	ESPEncap    uintptr
	CompMask    uint32
	ESN         uint32
}

// FlowActionESP is struct ib_uverbs_flow_action_esp (rdma/ib_user_ioctl_verbs.h, rdma-core v65).
type FlowActionESP struct {
	_             structs.HostLayout
	SPI           uint32
	Seq           uint32
	TFCPad        uint32
	Flags         uint32
	HardLimitPkts uint64
}

// ESPKeymatAESGCM is struct ib_uverbs_flow_action_esp_keymat_aes_gcm (rdma/ib_user_ioctl_verbs.h, rdma-core v65).
type ESPKeymatAESGCM struct {
	_      structs.HostLayout
	IV     uint64
	IVAlgo uint32
	Salt   uint32
	ICVLen uint32
	KeyLen uint32
	AESKey [8]uint32
}

// ESPReplayBMP is struct ib_uverbs_flow_action_esp_replay_bmp (rdma/ib_user_ioctl_verbs.h, rdma-core v65).
type ESPReplayBMP struct {
	_    structs.HostLayout
	Size uint32
}
