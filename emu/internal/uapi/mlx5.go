//go:build linux

package uapi

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
	QPFlagUARPage      = 1 << 10
	QPFlagDCIStream    = 1 << 11

	QPRespTirn = 1 << 0 // mlx5_ib_create_qp_resp_mask
	QPRespTisn = 1 << 1
	QPRespRqn  = 1 << 2
	QPRespSqn  = 1 << 3

	InlineNone = 1 // mlx5_user_inline_mode: headers need not be in the WQE, or those of layer 2
	InlineL2   = 2

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
