package ibv

// PortState is the logical state of a port.
//
// C: enum ibv_port_state.
type PortState uint32

const (
	PortNop         PortState = 0 // C: IBV_PORT_NOP.
	PortDown        PortState = 1 // no link. C: IBV_PORT_DOWN.
	PortInit        PortState = 2 // link, waiting for a subnet manager. C: IBV_PORT_INIT.
	PortArmed       PortState = 3 // configured, not yet active. C: IBV_PORT_ARMED.
	PortActive      PortState = 4 // carries traffic. C: IBV_PORT_ACTIVE.
	PortActiveDefer PortState = 5 // active, but the link is temporarily down. C: IBV_PORT_ACTIVE_DEFER.
)

// PhysState is the physical state of a port (InfiniBand specification,
// PortInfo.PortPhysicalState). The C headers have no names for it.
type PhysState uint8

const (
	PhysSleep         PhysState = 1
	PhysPolling       PhysState = 2
	PhysDisabled      PhysState = 3
	PhysTraining      PhysState = 4
	PhysLinkUp        PhysState = 5
	PhysErrorRecovery PhysState = 6
	PhysTest          PhysState = 7
)

// LinkLayer is the protocol of a port's link.
//
// C: IBV_LINK_LAYER_*.
type LinkLayer uint8

const (
	LinkUnspecified LinkLayer = 0 // from old drivers; means InfiniBand. C: IBV_LINK_LAYER_UNSPECIFIED.
	LinkInfiniBand  LinkLayer = 1 // C: IBV_LINK_LAYER_INFINIBAND.
	LinkEthernet    LinkLayer = 2 // RoCE or iWARP. C: IBV_LINK_LAYER_ETHERNET.
)

// GIDType is the protocol that a GID table entry is used with.
//
// C: enum ibv_gid_type.
type GIDType uint32

const (
	GIDTypeIB     GIDType = 0 // InfiniBand. C: IBV_GID_TYPE_IB.
	GIDTypeRoCEv1 GIDType = 1 // Ethernet frames, within one LAN. C: IBV_GID_TYPE_ROCE_V1.
	GIDTypeRoCEv2 GIDType = 2 // UDP, routable. C: IBV_GID_TYPE_ROCE_V2.
)

// NodeType is the kind of a device.
//
// C: enum ibv_node_type.
type NodeType int32

const (
	NodeUnknown     NodeType = -1 // C: IBV_NODE_UNKNOWN.
	NodeCA          NodeType = 1  // channel adapter: InfiniBand and RoCE. C: IBV_NODE_CA.
	NodeSwitch      NodeType = 2  // C: IBV_NODE_SWITCH.
	NodeRouter      NodeType = 3  // C: IBV_NODE_ROUTER.
	NodeRNIC        NodeType = 4  // iWARP. C: IBV_NODE_RNIC.
	NodeUSNIC       NodeType = 5  // C: IBV_NODE_USNIC.
	NodeUSNICUDP    NodeType = 6  // C: IBV_NODE_USNIC_UDP.
	NodeUnspecified NodeType = 7  // C: IBV_NODE_UNSPECIFIED.
)

// TransportType is the protocol family of a device.
//
// C: enum ibv_transport_type.
type TransportType int32

const (
	TransportUnknown     TransportType = -1 // C: IBV_TRANSPORT_UNKNOWN.
	TransportIB          TransportType = 0  // InfiniBand and RoCE. C: IBV_TRANSPORT_IB.
	TransportIWARP       TransportType = 1  // C: IBV_TRANSPORT_IWARP.
	TransportUSNIC       TransportType = 2  // C: IBV_TRANSPORT_USNIC.
	TransportUSNICUDP    TransportType = 3  // C: IBV_TRANSPORT_USNIC_UDP.
	TransportUnspecified TransportType = 4  // C: IBV_TRANSPORT_UNSPECIFIED.
)

// AtomicCap is the scope of a device's atomics.
//
// C: enum ibv_atomic_cap.
type AtomicCap uint32

const (
	AtomicNone AtomicCap = 0 // no atomics. C: IBV_ATOMIC_NONE.
	AtomicHCA  AtomicCap = 1 // atomic among the operations of this device. C: IBV_ATOMIC_HCA.
	AtomicGlob AtomicCap = 2 // also atomic with the CPUs and other devices. C: IBV_ATOMIC_GLOB.
)

// DeviceCapFlags are capabilities of a device. The 64 bits of the extended query
// include the 32 of the classic one.
//
// C: enum ibv_device_cap_flags and the IBV_DEVICE_* above 32 bits.
type DeviceCapFlags uint64

const (
	DeviceResizeMaxWR         DeviceCapFlags = 1 << 0  // C: IBV_DEVICE_RESIZE_MAX_WR.
	DeviceBadPKeyCntr         DeviceCapFlags = 1 << 1  // C: IBV_DEVICE_BAD_PKEY_CNTR.
	DeviceBadQKeyCntr         DeviceCapFlags = 1 << 2  // C: IBV_DEVICE_BAD_QKEY_CNTR.
	DeviceRawMulti            DeviceCapFlags = 1 << 3  // C: IBV_DEVICE_RAW_MULTI.
	DeviceAutoPathMig         DeviceCapFlags = 1 << 4  // C: IBV_DEVICE_AUTO_PATH_MIG.
	DeviceChangePhyPort       DeviceCapFlags = 1 << 5  // C: IBV_DEVICE_CHANGE_PHY_PORT.
	DeviceUDAVPortEnforce     DeviceCapFlags = 1 << 6  // C: IBV_DEVICE_UD_AV_PORT_ENFORCE.
	DeviceCurrQPStateMod      DeviceCapFlags = 1 << 7  // C: IBV_DEVICE_CURR_QP_STATE_MOD.
	DeviceShutdownPort        DeviceCapFlags = 1 << 8  // C: IBV_DEVICE_SHUTDOWN_PORT.
	DeviceInitType            DeviceCapFlags = 1 << 9  // C: IBV_DEVICE_INIT_TYPE.
	DevicePortActiveEvent     DeviceCapFlags = 1 << 10 // C: IBV_DEVICE_PORT_ACTIVE_EVENT.
	DeviceSysImageGUID        DeviceCapFlags = 1 << 11 // C: IBV_DEVICE_SYS_IMAGE_GUID.
	DeviceRCRNRNakGen         DeviceCapFlags = 1 << 12 // C: IBV_DEVICE_RC_RNR_NAK_GEN.
	DeviceSRQResize           DeviceCapFlags = 1 << 13 // C: IBV_DEVICE_SRQ_RESIZE.
	DeviceNNotifyCQ           DeviceCapFlags = 1 << 14 // C: IBV_DEVICE_N_NOTIFY_CQ.
	DeviceMemWindow           DeviceCapFlags = 1 << 17 // C: IBV_DEVICE_MEM_WINDOW.
	DeviceUDIPCsum            DeviceCapFlags = 1 << 18 // C: IBV_DEVICE_UD_IP_CSUM.
	DeviceXRC                 DeviceCapFlags = 1 << 20 // C: IBV_DEVICE_XRC.
	DeviceMemMgtExtensions    DeviceCapFlags = 1 << 21 // C: IBV_DEVICE_MEM_MGT_EXTENSIONS.
	DeviceMemWindowType2A     DeviceCapFlags = 1 << 23 // C: IBV_DEVICE_MEM_WINDOW_TYPE_2A.
	DeviceMemWindowType2B     DeviceCapFlags = 1 << 24 // C: IBV_DEVICE_MEM_WINDOW_TYPE_2B.
	DeviceRCIPCsum            DeviceCapFlags = 1 << 25 // C: IBV_DEVICE_RC_IP_CSUM.
	DeviceRawIPCsum           DeviceCapFlags = 1 << 26 // C: IBV_DEVICE_RAW_IP_CSUM.
	DeviceManagedFlowSteering DeviceCapFlags = 1 << 29 // C: IBV_DEVICE_MANAGED_FLOW_STEERING.
	DeviceRawScatterFCS       DeviceCapFlags = 1 << 34 // C: IBV_DEVICE_RAW_SCATTER_FCS.
	DevicePCIWriteEndPadding  DeviceCapFlags = 1 << 36 // C: IBV_DEVICE_PCI_WRITE_END_PADDING.
	DeviceCCDMABounce         DeviceCapFlags = 1 << 41 // C: IBV_DEVICE_CC_DMA_BOUNCE.
)

// PortCap are capabilities of a port.
//
// C: enum ibv_port_cap_flags.
type PortCap uint32

const (
	PortCapSM                PortCap = 1 << 1  // C: IBV_PORT_SM.
	PortCapNotice            PortCap = 1 << 2  // C: IBV_PORT_NOTICE_SUP.
	PortCapTrap              PortCap = 1 << 3  // C: IBV_PORT_TRAP_SUP.
	PortCapOptIPD            PortCap = 1 << 4  // C: IBV_PORT_OPT_IPD_SUP.
	PortCapAutoMigr          PortCap = 1 << 5  // C: IBV_PORT_AUTO_MIGR_SUP.
	PortCapSLMap             PortCap = 1 << 6  // C: IBV_PORT_SL_MAP_SUP.
	PortCapMKeyNVRAM         PortCap = 1 << 7  // C: IBV_PORT_MKEY_NVRAM.
	PortCapPKeyNVRAM         PortCap = 1 << 8  // C: IBV_PORT_PKEY_NVRAM.
	PortCapLEDInfo           PortCap = 1 << 9  // C: IBV_PORT_LED_INFO_SUP.
	PortCapSysImageGUID      PortCap = 1 << 11 // C: IBV_PORT_SYS_IMAGE_GUID_SUP.
	PortCapPKeySwExtPortTrap PortCap = 1 << 12 // C: IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP.
	PortCapExtendedSpeeds    PortCap = 1 << 14 // C: IBV_PORT_EXTENDED_SPEEDS_SUP.
	PortCapMask2             PortCap = 1 << 15 // PortCap2 is valid. C: IBV_PORT_CAP_MASK2_SUP.
	PortCapCM                PortCap = 1 << 16 // C: IBV_PORT_CM_SUP.
	PortCapSNMPTunnel        PortCap = 1 << 17 // C: IBV_PORT_SNMP_TUNNEL_SUP.
	PortCapReinit            PortCap = 1 << 18 // C: IBV_PORT_REINIT_SUP.
	PortCapDeviceMgmt        PortCap = 1 << 19 // C: IBV_PORT_DEVICE_MGMT_SUP.
	PortCapVendorClass       PortCap = 1 << 20 // C: IBV_PORT_VENDOR_CLASS_SUP.
	PortCapDRNotice          PortCap = 1 << 21 // C: IBV_PORT_DR_NOTICE_SUP.
	PortCapCapMaskNotice     PortCap = 1 << 22 // C: IBV_PORT_CAP_MASK_NOTICE_SUP.
	PortCapBootMgmt          PortCap = 1 << 23 // C: IBV_PORT_BOOT_MGMT_SUP.
	PortCapLinkLatency       PortCap = 1 << 24 // C: IBV_PORT_LINK_LATENCY_SUP.
	PortCapClientReg         PortCap = 1 << 25 // C: IBV_PORT_CLIENT_REG_SUP.
	PortCapIPBasedGIDs       PortCap = 1 << 26 // C: IBV_PORT_IP_BASED_GIDS.
)

// PortCap2 are further capabilities of a port.
//
// C: enum ibv_port_cap_flags2.
type PortCap2 uint16

const (
	PortCap2SetNodeDesc          PortCap2 = 1 << 0  // C: IBV_PORT_SET_NODE_DESC_SUP.
	PortCap2InfoExt              PortCap2 = 1 << 1  // C: IBV_PORT_INFO_EXT_SUP.
	PortCap2Virt                 PortCap2 = 1 << 2  // C: IBV_PORT_VIRT_SUP.
	PortCap2SwitchPortStateTable PortCap2 = 1 << 3  // C: IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP.
	PortCap2Width2X              PortCap2 = 1 << 4  // C: IBV_PORT_LINK_WIDTH_2X_SUP.
	PortCap2SpeedHDR             PortCap2 = 1 << 5  // C: IBV_PORT_LINK_SPEED_HDR_SUP.
	PortCap2SpeedNDR             PortCap2 = 1 << 10 // C: IBV_PORT_LINK_SPEED_NDR_SUP.
	PortCap2SpeedXDR             PortCap2 = 1 << 12 // C: IBV_PORT_LINK_SPEED_XDR_SUP.
)
