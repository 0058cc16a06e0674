//go:build linux

package uapi

// The mlx5 driver's part. C: struct mlx5_ib_*, named alike.

// Flags of the driver's requests and answers.
const (
	UctxDEVX = 1 << 0 // mlx5_ib_alloc_uctx_v2_flags

	RespCoreClock  = 1 << 0 // mlx5_ib_alloc_ucontext_resp_mask
	RespDumpFill   = 1 << 1
	RespSQD2RTS    = 1 << 3
	ClockInfoV1    = 1 << 0
	CQFlag128BPad  = 1 << 0 // mlx5_ib_create_cq_flags
	CQFlagUAR      = 1 << 1
	CQFlagRealTime = 1 << 2

	QPFlagSignature    = 1 << 0 // MLX5_QP_FLAG_*
	QPFlagScatterCQE   = 1 << 1
	QPFlagBFRegIndex   = 1 << 3
	QPFlagDCT          = 1 << 4
	QPFlagDCI          = 1 << 5
	QPFlagSelfUnicast  = 1 << 6
	QPFlagSelfMulti    = 1 << 7
	QPFlagAllowScatter = 1 << 8
	QPFlagPacketCredit = 1 << 9
	QPFlagUARPage      = 1 << 10
	QPFlagDCIStream    = 1 << 11

	QPRespTirn = 1 << 0 // mlx5_ib_create_qp_resp_mask
	QPRespTisn = 1 << 1
	QPRespRqn  = 1 << 2
	QPRespSqn  = 1 << 3

	InlineNone = 1 // mlx5_user_inline_mode: headers need not be in the WQE, or those of layer 2
	InlineL2   = 2

	SRQFlagSignature = 1 << 0

	DevRespComp128    = 1 << 0 // mlx5_ib_query_dev_resp_flags
	DevRespPad128     = 1 << 1
	DevRespScatterDCT = 1 << 3
	DevRespOutOfOrder = 1 << 4

	ModifyOutOfOrder = 1 << 0 // mlx5_ib_modify_qp_mask: MLX5_IB_MODIFY_QP_OOO_DP

	PaceDedicated = 1 << 0 // mlx5_ib_uapi_pp_alloc_flags

	MmapRegular   = 0 // mlx5_ib_mmap_cmd
	MmapWC        = 2
	MmapNC        = 3
	MmapCoreClock = 5
	MmapAllocWC   = 6
	MmapClockInfo = 7
	MmapDM        = 8
	MmapUAR       = 9 // the first one that no command has: pages handed out by name
)

// AllocUcontextReq is what libmlx5 sends with get_context (version 2; version 1 is its first eight bytes).
type AllocUcontextReq struct {
	TotalNumBfregs, NumLowLatencyBfregs, Flags, CompMask uint32
	MaxCQEVersion                                        uint8
	Reserved0                                            uint8
	Reserved1                                            uint16
	Reserved2                                            uint32
	LibCaps                                              uint64
}

// AllocUcontextResp answers AllocUcontextReq.
type AllocUcontextResp struct {
	QPTabSize, BfRegSize, TotBfregs, CacheLineSize           uint32
	MaxSqDescSz, MaxRqDescSz                                 uint16
	MaxSendWqebb, MaxRecvWR, MaxSRQRecvWR                    uint32
	NumPorts, FlowActionFlags                                uint16
	CompMask, ResponseLength                                 uint32
	CQEVersion, CmdsSuppUhw, EthMinInline, ClockInfoVersions uint8
	HcaCoreClockOffset                                       uint64
	LogUARSize, NumUarsPerPage, NumDynBfregs, DumpFillMkey   uint32
}

// Mlx5QueryDeviceResp is the driver's part of the extended query_device.
type Mlx5QueryDeviceResp struct {
	CompMask, ResponseLength uint32
	MaxTso                   uint32    `c:"tso_caps."`
	TsoQpts                  uint32    `c:"tso_caps.supported_qpts"`
	RxHashFieldsMask         uint64    `c:"rss_caps"`
	RxHashFunction           [8]byte   `c:"-"`
	CQECompMaxNum            uint32    `c:"cqe_comp_caps.max_num"`
	CQECompFormat            uint32    `c:"cqe_comp_caps.supported_format"`
	PacketPacing             [4]uint32 `c:"packet_pacing_caps"` // min and max in kbit/s, types of QPs, flags
	MultiPktSendWqes         uint32    `c:"mlx5_ib_support_multi_pkt_send_wqes"`
	Flags                    uint32
	SwParsing                [2]uint32 `c:"sw_parsing_caps"`
	StridingRq               [6]uint32 `c:"striding_rq_caps"`
	TunnelOffloadsCaps       uint32
	DciStreamsCaps           [2]byte
	_                        uint16
	RegC0                    [2]uint32 `c:"-"` // newer headers only
}

// Mlx5CreateCQ is the driver's part of create_cq.
type Mlx5CreateCQ struct {
	BufAddr, DbAddr                uint64
	CQESize                        uint32
	CQECompEn, CQECompResFormat    uint8
	Flags, UARPageIndex, Reserved0 uint16
	Reserved1                      uint32
}

// Mlx5NumResp answers create_cq and create_srq with the object's number.
type Mlx5NumResp struct {
	Num uint32
	_   uint32
}

// Mlx5ResizeCQ is the driver's part of resize_cq.
type Mlx5ResizeCQ struct {
	BufAddr   uint64
	CQESize   uint16
	Reserved0 uint16
	Reserved1 uint32
}

// Mlx5CreateSRQ is the driver's part of create_srq.
type Mlx5CreateSRQ struct {
	BufAddr, DbAddr                   uint64
	Flags, Reserved0, Uidx, Reserved1 uint32
}

// Mlx5CreateQP is the driver's part of create_qp.
type Mlx5CreateQP struct {
	BufAddr, DbAddr                                             uint64
	SqWqeCount, RqWqeCount, RqWqeShift, Flags, Uidx, BfregIndex uint32
	SqBufAddr                                                   uint64
	EceOptions                                                  uint32
	DciStreams                                                  [2]byte
	Reserved                                                    uint16
}

// Mlx5CreateQPResp answers Mlx5CreateQP.
type Mlx5CreateQPResp struct {
	BfregIndex, EceOptions, CompMask, Tirn, Tisn, Rqn, Sqn, Reserved1 uint32
	TirIcmAddr                                                        uint64
}

// Mlx5ModifyQP is the driver's part of the extended modify_qp.
type Mlx5ModifyQP struct {
	CompMask        uint32
	MaxBurstSz      uint32 `c:"burst_info."`
	TypicalPktSz, _ uint16 `c:"-"`
	EceOptions      uint32
}

// Mlx5ModifyQPResp answers it.
type Mlx5ModifyQPResp struct{ ResponseLength, Dctn, EceOptions, Reserved uint32 }

// Mlx5AllocMW is the driver's part of alloc_mw.
type Mlx5AllocMW struct {
	CompMask  uint32
	NumKlms   uint8
	Reserved1 uint8
	Reserved2 uint16
}

// Mlx5CreateAHResp answers create_ah: the MAC address that the address resolves to.
type Mlx5CreateAHResp struct {
	ResponseLength uint32
	Dmac           [6]byte
	_              [6]byte
}

// ClockInfo is the page that turns the device's clock into time; Sign is odd while it changes.
type ClockInfo struct {
	Sign, Resv           uint32
	Nsec, Cycles, Frac   uint64
	Mult, Shift          uint32
	Mask, OverflowPeriod uint64
}

// Mlx5QueryPort answers the driver's own query_port.
type Mlx5QueryPort struct {
	Flags                                     uint64
	Vport, VportVhcaID, EswOwnerVhcaID, Rsvd0 uint16
	VportSteeringIcmRx, VportSteeringIcmTx    uint64
	RegC0                                     [2]uint32
}
