package ibv

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
	// OpSendInv sends and invalidates an rkey of the peer.
	// C: IBV_WR_SEND_WITH_INV.
	OpSendInv Opcode = 9
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
