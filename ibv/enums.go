package ibv

// The values below come from the C headers and the kernel's ABI. A value that this
// release does not know is kept, and printed as a number.

// QPType is the transport service of a queue pair.
//
// C: enum ibv_qp_type.
type QPType uint32

const (
	// RC is reliable connected: acknowledged, in order, one peer; every
	// operation. C: IBV_QPT_RC.
	RC QPType = 2
	// UC is unreliable connected: one peer, no acknowledgement; send and RDMA
	// write. C: IBV_QPT_UC.
	UC QPType = 3
	// UD is unreliable datagram: any peer, one packet per message; send only.
	// C: IBV_QPT_UD.
	UD QPType = 4
	// RawPacket sends and receives whole Ethernet frames.
	// C: IBV_QPT_RAW_PACKET.
	RawPacket QPType = 8
	// XRCSend is the sending side of an extended reliable connection.
	// C: IBV_QPT_XRC_SEND.
	XRCSend QPType = 9
	// XRCRecv is the receiving side of an extended reliable connection.
	// C: IBV_QPT_XRC_RECV.
	XRCRecv QPType = 10
	// SRD is EFA's scalable reliable datagrams: each work request names its peer by an AH, and none is
	// lost; they may overtake each other. Package efadv creates it. C: IBV_QPT_DRIVER with
	// EFADV_QP_DRIVER_TYPE_SRD; the number is this package's.
	//
	// Experimental: no device has run this. See docs/stability.md.
	SRD QPType = 252
	// DCT is the receiving side of mlx5's dynamically connected transport: one for all peers that
	// know its key, with an SRQ. Package mlx5dv creates it. C: IBV_QPT_DRIVER with
	// MLX5DV_DCTYPE_DCT; the number is this package's.
	DCT QPType = 253
	// DCI is the sending side of mlx5's dynamically connected transport: each work request names
	// its DCT; every operation. Package mlx5dv creates it. C: IBV_QPT_DRIVER with
	// MLX5DV_DCTYPE_DCI; the number is this package's.
	DCI QPType = 254
	// Driver is a type that the vendor defines. C: IBV_QPT_DRIVER.
	Driver QPType = 255
)

// QPState is the state of a queue pair.
//
// C: enum ibv_qp_state.
type QPState uint32

const (
	// StateReset is the state after creation: nothing may be posted.
	// C: IBV_QPS_RESET.
	StateReset QPState = 0
	// StateInit accepts receives; no traffic flows. C: IBV_QPS_INIT.
	StateInit QPState = 1
	// StateRTR is ready to receive. C: IBV_QPS_RTR.
	StateRTR QPState = 2
	// StateRTS is ready to send and to receive. C: IBV_QPS_RTS.
	StateRTS QPState = 3
	// StateSQD has a drained, or draining, send queue. C: IBV_QPS_SQD.
	StateSQD QPState = 4
	// StateSQE is a failed send queue of a UC or UD queue pair; receives continue.
	// C: IBV_QPS_SQE.
	StateSQE QPState = 5
	// StateErr completes everything posted with WCWRFlushErr. C: IBV_QPS_ERR.
	StateErr QPState = 6
	// StateUnknown is the state of a QP that is closed or cannot report it. C: IBV_QPS_UNKNOWN.
	StateUnknown QPState = 7
)

// MTU is a path MTU as the C API encodes it; Bytes decodes it.
//
// C: enum ibv_mtu.
type MTU uint32

const (
	MTU256  MTU = 1 // C: IBV_MTU_256.
	MTU512  MTU = 2 // C: IBV_MTU_512.
	MTU1024 MTU = 3 // C: IBV_MTU_1024.
	MTU2048 MTU = 4 // C: IBV_MTU_2048.
	MTU4096 MTU = 5 // C: IBV_MTU_4096.
)

// Bytes returns the MTU in bytes, or 0 for an unknown value.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

// MTUFromBytes returns the largest MTU of at most n bytes. ok is false when n is below 256.
func MTUFromBytes(n int) (m MTU, ok bool) {
	for m = MTU4096; m >= MTU256; m-- {
		if m.Bytes() <= n {
			return m, true
		}
	}
	return 0, false
}

// Opcode is the operation of a send work request.
//
// C: enum ibv_wr_opcode.
type Opcode uint32

const (
	// OpWrite writes into the peer's memory. C: IBV_WR_RDMA_WRITE.
	OpWrite Opcode = 0
	// OpWriteImm writes, consumes a receive of the peer and hands it the
	// immediate value. C: IBV_WR_RDMA_WRITE_WITH_IMM.
	OpWriteImm Opcode = 1
	// OpSend sends into a receive of the peer. C: IBV_WR_SEND.
	OpSend Opcode = 2
	// OpSendImm sends with an immediate value. C: IBV_WR_SEND_WITH_IMM.
	OpSendImm Opcode = 3
	// OpRead reads the peer's memory. C: IBV_WR_RDMA_READ.
	OpRead Opcode = 4
	// OpCompareSwap compares and swaps 8 bytes of the peer's memory, and
	// returns the previous value. C: IBV_WR_ATOMIC_CMP_AND_SWP.
	OpCompareSwap Opcode = 5
	// OpFetchAdd adds to 8 bytes of the peer's memory, and returns the
	// previous value. C: IBV_WR_ATOMIC_FETCH_AND_ADD.
	OpFetchAdd Opcode = 6
	// OpLocalInv invalidates a local memory window or region.
	// C: IBV_WR_LOCAL_INV.
	OpLocalInv Opcode = 7
	// OpBindMW binds a memory window of type 2. C: IBV_WR_BIND_MW.
	OpBindMW Opcode = 8
	// OpSendInv sends and invalidates an rkey of the peer.
	// C: IBV_WR_SEND_WITH_INV.
	OpSendInv Opcode = 9
	// OpTSO sends a large segment that the device splits into packets. C: IBV_WR_TSO.
	OpTSO Opcode = 10
	// OpDriver1 is defined by the vendor: with mlx5 it changes an indirect memory key, as package mlx5dv describes.
	// C: IBV_WR_DRIVER1.
	OpDriver1 Opcode = 11
	// OpFlush makes earlier writes visible or persistent. C: IBV_WR_FLUSH.
	OpFlush Opcode = 14
	// OpAtomicWrite writes 8 bytes atomically. C: IBV_WR_ATOMIC_WRITE.
	OpAtomicWrite Opcode = 15
)

// SendFlags modify a send work request.
//
// C: enum ibv_send_flags.
type SendFlags uint32

const (
	// Fence waits for earlier reads and atomics of the queue pair.
	// C: IBV_SEND_FENCE.
	Fence SendFlags = 1 << 0
	// Signaled asks for a completion. C: IBV_SEND_SIGNALED.
	Signaled SendFlags = 1 << 1
	// Solicited raises a solicited event at the receiver.
	// C: IBV_SEND_SOLICITED.
	Solicited SendFlags = 1 << 2
	// Inline copies the data when the work request is posted: the lkey is not used,
	// and the memory may be reused as soon as the call returns. C: IBV_SEND_INLINE.
	Inline SendFlags = 1 << 3
	// IPCsum computes the checksums of the packet. C: IBV_SEND_IP_CSUM.
	IPCsum SendFlags = 1 << 4
)

// AccessFlags are the permitted uses of a memory region, or what the peer of a queue
// pair may do.
//
// C: enum ibv_access_flags.
type AccessFlags uint32

const (
	// LocalWrite lets the device write for local operations, such as a receive
	// or the result of a read. C: IBV_ACCESS_LOCAL_WRITE.
	LocalWrite AccessFlags = 1 << 0
	// RemoteWrite lets peers write; it needs LocalWrite.
	// C: IBV_ACCESS_REMOTE_WRITE.
	RemoteWrite AccessFlags = 1 << 1
	// RemoteRead lets peers read. C: IBV_ACCESS_REMOTE_READ.
	RemoteRead AccessFlags = 1 << 2
	// RemoteAtomic lets peers use atomics; it needs LocalWrite.
	// C: IBV_ACCESS_REMOTE_ATOMIC.
	RemoteAtomic AccessFlags = 1 << 3
	// MWBind allows memory windows on the region. C: IBV_ACCESS_MW_BIND.
	MWBind AccessFlags = 1 << 4
	// ZeroBased makes addresses offsets from the region's start.
	// C: IBV_ACCESS_ZERO_BASED.
	ZeroBased AccessFlags = 1 << 5
	// OnDemand does not pin the memory: the device handles page faults.
	// C: IBV_ACCESS_ON_DEMAND.
	OnDemand AccessFlags = 1 << 6
	// HugeTLB declares that the memory consists of huge pages. C: IBV_ACCESS_HUGETLB.
	HugeTLB AccessFlags = 1 << 7
	// FlushGlobal allows flushes that make data visible. C: IBV_ACCESS_FLUSH_GLOBAL.
	FlushGlobal AccessFlags = 1 << 8
	// FlushPersistent allows flushes that make data persistent.
	// C: IBV_ACCESS_FLUSH_PERSISTENT.
	FlushPersistent AccessFlags = 1 << 9
	// RelaxedOrdering allows PCI relaxed ordering. It is optional: a device or
	// kernel that does not know it ignores it.
	// C: IBV_ACCESS_RELAXED_ORDERING.
	RelaxedOrdering AccessFlags = 1 << 20

	// AccessNone is None for the access to queue pairs, in ConnectOptions and
	// QPAttr: the peer may do nothing but send. Only this package defines it; C
	// never sees it.
	AccessNone AccessFlags = 1 << 31

	// AccessOptional is the range of flags that a device may ignore.
	// C: IBV_ACCESS_OPTIONAL_RANGE.
	AccessOptional AccessFlags = 0x3ff00000
)

// WCStatus is the outcome of a work request. It is not an error itself: WC.Err returns the
// error of a completion, and errors.Is(err, WCRetryExcErr.Err()) tests for one status.
//
// C: enum ibv_wc_status.
type WCStatus uint32

// Explain returns the meaning of a status in words.
const (
	WCSuccess        WCStatus = 0  // C: IBV_WC_SUCCESS.
	WCLocLenErr      WCStatus = 1  // a message was too long for the receive or the path. C: IBV_WC_LOC_LEN_ERR.
	WCLocQPOpErr     WCStatus = 2  // the local queue pair could not execute it. C: IBV_WC_LOC_QP_OP_ERR.
	WCLocEECOpErr    WCStatus = 3  // reliable datagram, not used today. C: IBV_WC_LOC_EEC_OP_ERR.
	WCLocProtErr     WCStatus = 4  // a local buffer is not registered for this. C: IBV_WC_LOC_PROT_ERR.
	WCWRFlushErr     WCStatus = 5  // not executed: the queue pair had failed before. C: IBV_WC_WR_FLUSH_ERR.
	WCMWBindErr      WCStatus = 6  // a memory window was refused. C: IBV_WC_MW_BIND_ERR.
	WCBadRespErr     WCStatus = 7  // the response was not the expected one. C: IBV_WC_BAD_RESP_ERR.
	WCLocAccessErr   WCStatus = 8  // an incoming write broke local protection. C: IBV_WC_LOC_ACCESS_ERR.
	WCRemInvReqErr   WCStatus = 9  // the responder rejected the request as invalid. C: IBV_WC_REM_INV_REQ_ERR.
	WCRemAccessErr   WCStatus = 10 // the peer's memory does not allow it. C: IBV_WC_REM_ACCESS_ERR.
	WCRemOpErr       WCStatus = 11 // the peer could not complete it. C: IBV_WC_REM_OP_ERR.
	WCRetryExcErr    WCStatus = 12 // the peer did not acknowledge in time. C: IBV_WC_RETRY_EXC_ERR.
	WCRNRRetryExcErr WCStatus = 13 // the peer had no receive posted. C: IBV_WC_RNR_RETRY_EXC_ERR.
	WCLocRDDViolErr  WCStatus = 14 // reliable datagram, not used today. C: IBV_WC_LOC_RDD_VIOL_ERR.
	WCRemInvRDReqErr WCStatus = 15 // reliable datagram, not used today. C: IBV_WC_REM_INV_RD_REQ_ERR.
	WCRemAbortErr    WCStatus = 16 // the peer aborted it. C: IBV_WC_REM_ABORT_ERR.
	WCInvEECNErr     WCStatus = 17 // reliable datagram, not used today. C: IBV_WC_INV_EECN_ERR.
	WCInvEECStateErr WCStatus = 18 // reliable datagram, not used today. C: IBV_WC_INV_EEC_STATE_ERR.
	WCFatalErr       WCStatus = 19 // the device failed. C: IBV_WC_FATAL_ERR.
	WCRespTimeoutErr WCStatus = 20 // no response in time. C: IBV_WC_RESP_TIMEOUT_ERR.
	WCGeneralErr     WCStatus = 21 // anything else. C: IBV_WC_GENERAL_ERR.
	WCTMErr          WCStatus = 22 // tag matching failed. C: IBV_WC_TM_ERR.
	// tag matching: software has to finish the rendezvous. C: IBV_WC_TM_RNDV_INCOMPLETE.
	WCTMRndvIncomplete WCStatus = 23
)

// WCOpcode is the operation that completed. It is valid only when the status is
// WCSuccess.
//
// C: enum ibv_wc_opcode.
type WCOpcode uint32

const (
	WCSend        WCOpcode = 0   // C: IBV_WC_SEND.
	WCWrite       WCOpcode = 1   // C: IBV_WC_RDMA_WRITE.
	WCRead        WCOpcode = 2   // C: IBV_WC_RDMA_READ.
	WCCompareSwap WCOpcode = 3   // C: IBV_WC_COMP_SWAP.
	WCFetchAdd    WCOpcode = 4   // C: IBV_WC_FETCH_ADD.
	WCBindMW      WCOpcode = 5   // C: IBV_WC_BIND_MW.
	WCLocalInv    WCOpcode = 6   // C: IBV_WC_LOCAL_INV.
	WCTSO         WCOpcode = 7   // C: IBV_WC_TSO.
	WCFlush       WCOpcode = 8   // C: IBV_WC_FLUSH.
	WCAtomicWrite WCOpcode = 9   // C: IBV_WC_ATOMIC_WRITE.
	WCRecv        WCOpcode = 128 // a send from the peer arrived. C: IBV_WC_RECV.
	WCRecvImm     WCOpcode = 129 // a write with immediate data from the peer arrived. C: IBV_WC_RECV_RDMA_WITH_IMM.
	WCTMAdd       WCOpcode = 130 // C: IBV_WC_TM_ADD.
	WCTMDel       WCOpcode = 131 // C: IBV_WC_TM_DEL.
	WCTMSync      WCOpcode = 132 // C: IBV_WC_TM_SYNC.
	WCTMRecv      WCOpcode = 133 // C: IBV_WC_TM_RECV.
	WCTMNoTag     WCOpcode = 134 // C: IBV_WC_TM_NO_TAG.
	WCDriver1     WCOpcode = 135 // C: IBV_WC_DRIVER1.
	WCDriver2     WCOpcode = 136 // C: IBV_WC_DRIVER2.
	WCDriver3     WCOpcode = 137 // C: IBV_WC_DRIVER3.
)

// IsRecv reports whether the completion belongs to the receive queue.
func (o WCOpcode) IsRecv() bool { return o&WCRecv != 0 && (o < WCDriver1 || o > WCDriver3) }

// WCFlags are properties of a completion, such as which of its fields are valid.
//
// C: enum ibv_wc_flags.
type WCFlags uint32

const (
	WCGRH         WCFlags = 1 << 0 // the buffer starts with a 40-byte GRH (UD). C: IBV_WC_GRH.
	WCWithImm     WCFlags = 1 << 1 // Imm is valid. C: IBV_WC_WITH_IMM.
	WCIPCsumOK    WCFlags = 1 << 2 // checksums were verified. C: IBV_WC_IP_CSUM_OK.
	WCWithInv     WCFlags = 1 << 3 // InvalidatedRKey is valid. C: IBV_WC_WITH_INV.
	WCTMSyncReq   WCFlags = 1 << 4 // C: IBV_WC_TM_SYNC_REQ.
	WCTMMatch     WCFlags = 1 << 5 // C: IBV_WC_TM_MATCH.
	WCTMDataValid WCFlags = 1 << 6 // C: IBV_WC_TM_DATA_VALID.
)

// WCFields are fields of a completion that CQOptions.Fields asks for.
type WCFields uint64

const (
	FieldByteLen      WCFields = 1 << 0  // WC.ByteLen. C: IBV_WC_EX_WITH_BYTE_LEN.
	FieldImm          WCFields = 1 << 1  // WC.Imm and InvalidatedRKey. C: IBV_WC_EX_WITH_IMM.
	FieldQPN          WCFields = 1 << 2  // WC.QPN, which is always there. C: IBV_WC_EX_WITH_QP_NUM.
	FieldSrcQPN       WCFields = 1 << 3  // WC.SrcQPN. C: IBV_WC_EX_WITH_SRC_QP.
	FieldSLID         WCFields = 1 << 4  // WC.SLID. C: IBV_WC_EX_WITH_SLID.
	FieldSL           WCFields = 1 << 5  // WC.SL. C: IBV_WC_EX_WITH_SL.
	FieldDLIDPathBits WCFields = 1 << 6  // WC.DLIDPathBits. C: IBV_WC_EX_WITH_DLID_PATH_BITS.
	FieldTimestamp    WCFields = 1 << 7  // WC.Timestamp. C: IBV_WC_EX_WITH_COMPLETION_TIMESTAMP.
	FieldCVLAN        WCFields = 1 << 8  // WC.CVLAN. C: IBV_WC_EX_WITH_CVLAN.
	FieldFlowTag      WCFields = 1 << 9  // WC.FlowTag. C: IBV_WC_EX_WITH_FLOW_TAG.
	FieldTMInfo       WCFields = 1 << 10 // WCEx.TM. C: IBV_WC_EX_WITH_TM_INFO.
	FieldWallClock    WCFields = 1 << 11 // WCEx.WallClock. C: IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK.

	FieldsStandard WCFields = 1<<7 - 1 // those that a CQ without Fields has. C: IBV_WC_STANDARD_FLAGS.
)

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

// MigState is the state of automatic path migration.
//
// C: enum ibv_mig_state.
type MigState uint32

const (
	MigMigrated MigState = 0 // C: IBV_MIG_MIGRATED.
	MigRearm    MigState = 1 // C: IBV_MIG_REARM.
	MigArmed    MigState = 2 // C: IBV_MIG_ARMED.
)

// SRQType is the kind of a shared receive queue.
//
// C: enum ibv_srq_type.
type SRQType uint32

const (
	SRQBasic SRQType = 0 // C: IBV_SRQT_BASIC.
	SRQXRC   SRQType = 1 // C: IBV_SRQT_XRC.
	SRQTM    SRQType = 2 // tag matching. C: IBV_SRQT_TM.
)

// AsyncEventType is the kind of an asynchronous event of a device, a port or an object.
// Explain describes it in a sentence.
//
// C: enum ibv_event_type.
type AsyncEventType uint32

const (
	EventCQErr            AsyncEventType = 0  // C: IBV_EVENT_CQ_ERR.
	EventQPFatal          AsyncEventType = 1  // C: IBV_EVENT_QP_FATAL.
	EventQPReqErr         AsyncEventType = 2  // C: IBV_EVENT_QP_REQ_ERR.
	EventQPAccessErr      AsyncEventType = 3  // C: IBV_EVENT_QP_ACCESS_ERR.
	EventCommEst          AsyncEventType = 4  // C: IBV_EVENT_COMM_EST.
	EventSQDrained        AsyncEventType = 5  // C: IBV_EVENT_SQ_DRAINED.
	EventPathMig          AsyncEventType = 6  // C: IBV_EVENT_PATH_MIG.
	EventPathMigErr       AsyncEventType = 7  // C: IBV_EVENT_PATH_MIG_ERR.
	EventDeviceFatal      AsyncEventType = 8  // C: IBV_EVENT_DEVICE_FATAL.
	EventPortActive       AsyncEventType = 9  // C: IBV_EVENT_PORT_ACTIVE.
	EventPortErr          AsyncEventType = 10 // C: IBV_EVENT_PORT_ERR.
	EventLIDChange        AsyncEventType = 11 // C: IBV_EVENT_LID_CHANGE.
	EventPKeyChange       AsyncEventType = 12 // C: IBV_EVENT_PKEY_CHANGE.
	EventSMChange         AsyncEventType = 13 // C: IBV_EVENT_SM_CHANGE.
	EventSRQErr           AsyncEventType = 14 // C: IBV_EVENT_SRQ_ERR.
	EventSRQLimitReached  AsyncEventType = 15 // C: IBV_EVENT_SRQ_LIMIT_REACHED.
	EventQPLastWQEReached AsyncEventType = 16 // C: IBV_EVENT_QP_LAST_WQE_REACHED.
	EventClientReregister AsyncEventType = 17 // C: IBV_EVENT_CLIENT_REREGISTER.
	EventGIDChange        AsyncEventType = 18 // C: IBV_EVENT_GID_CHANGE.
	EventWQFatal          AsyncEventType = 19 // C: IBV_EVENT_WQ_FATAL.
	EventSpeedChange      AsyncEventType = 20 // C: IBV_EVENT_DEVICE_SPEED_CHANGE.
)

// QPAttrMask names fields of a QPAttr.
//
// C: enum ibv_qp_attr_mask.
type QPAttrMask uint32

const (
	MaskState            QPAttrMask = 1 << 0  // C: IBV_QP_STATE.
	MaskCurState         QPAttrMask = 1 << 1  // C: IBV_QP_CUR_STATE.
	MaskEnSQDAsyncNotify QPAttrMask = 1 << 2  // C: IBV_QP_EN_SQD_ASYNC_NOTIFY.
	MaskAccessFlags      QPAttrMask = 1 << 3  // C: IBV_QP_ACCESS_FLAGS.
	MaskPKeyIndex        QPAttrMask = 1 << 4  // C: IBV_QP_PKEY_INDEX.
	MaskPort             QPAttrMask = 1 << 5  // C: IBV_QP_PORT.
	MaskQKey             QPAttrMask = 1 << 6  // C: IBV_QP_QKEY.
	MaskAV               QPAttrMask = 1 << 7  // the address vector. C: IBV_QP_AV.
	MaskPathMTU          QPAttrMask = 1 << 8  // C: IBV_QP_PATH_MTU.
	MaskTimeout          QPAttrMask = 1 << 9  // C: IBV_QP_TIMEOUT.
	MaskRetryCnt         QPAttrMask = 1 << 10 // C: IBV_QP_RETRY_CNT.
	MaskRNRRetry         QPAttrMask = 1 << 11 // C: IBV_QP_RNR_RETRY.
	MaskRQPSN            QPAttrMask = 1 << 12 // C: IBV_QP_RQ_PSN.
	MaskMaxQPRdAtomic    QPAttrMask = 1 << 13 // C: IBV_QP_MAX_QP_RD_ATOMIC.
	MaskAltPath          QPAttrMask = 1 << 14 // C: IBV_QP_ALT_PATH.
	MaskMinRNRTimer      QPAttrMask = 1 << 15 // C: IBV_QP_MIN_RNR_TIMER.
	MaskSQPSN            QPAttrMask = 1 << 16 // C: IBV_QP_SQ_PSN.
	MaskMaxDestRdAtomic  QPAttrMask = 1 << 17 // C: IBV_QP_MAX_DEST_RD_ATOMIC.
	MaskPathMigState     QPAttrMask = 1 << 18 // C: IBV_QP_PATH_MIG_STATE.
	MaskCap              QPAttrMask = 1 << 19 // C: IBV_QP_CAP.
	MaskDestQPN          QPAttrMask = 1 << 20 // C: IBV_QP_DEST_QPN.
	MaskRateLimit        QPAttrMask = 1 << 25 // C: IBV_QP_RATE_LIMIT.
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
