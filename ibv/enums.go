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
	// StateSQD has a drained, or draining, send queue. The driver of mlx5 has no transition to it.
	// C: IBV_QPS_SQD.
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
