package mlx5

import "github.com/pureverbs/pureverbs/internal/abi"

// The driver's part of commands, of rdma/mlx5-abi.h and rdma/mlx5_user_ioctl_cmds.h.

const (
	driverID   = 1 // C: RDMA_DRIVER_MLX5
	abiVersion = 1 // C: MLX5_IB_UVERBS_ABI_VERSION

	contextDevX  = 1 << 0 // C: MLX5_IB_ALLOC_UCTX_DEVX
	lib4KUAR     = 1 << 0 // C: MLX5_LIB_CAP_4K_UAR
	libDynUAR    = 1 << 1 // C: MLX5_LIB_CAP_DYN_UAR
	uhwCreateAH  = 1 << 1 // C: MLX5_USER_CMDS_SUPP_UHW_CREATE_AH
	uhwDevice    = 1 << 0 // C: MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE
	inlineNone   = 1      // C: MLX5_USER_INLINE_MODE_NONE
	cqeVersionV1 = 1      // C: MLX5_CQE_VERSION_V1
	noUserIndex  = 0xffffff

	cqUARPage       = 1 << 1  // C: MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX
	qpScatterCQE    = 1 << 1  // C: MLX5_QP_FLAG_SCATTER_CQE
	qpBFRegIndex    = 1 << 3  // C: MLX5_QP_FLAG_BFREG_INDEX
	qpAllowScatter  = 1 << 8  // C: MLX5_QP_FLAG_ALLOW_SCATTER_CQE
	qpUARPage       = 1 << 10 // C: MLX5_QP_FLAG_UAR_PAGE_INDEX
	qpTunnels       = 1 << 2  // C: MLX5_QP_FLAG_TUNNEL_OFFLOADS
	qpDCT           = 1 << 4  // C: MLX5_QP_FLAG_TYPE_DCT
	qpDCI           = 1 << 5  // C: MLX5_QP_FLAG_TYPE_DCI
	qpSelfUC        = 1 << 6  // C: MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC
	qpSelfMC        = 1 << 7  // C: MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC
	qpCredits       = 1 << 9  // C: MLX5_QP_FLAG_PACKET_BASED_CREDIT_MODE
	qpStreams       = 1 << 11 // C: MLX5_QP_FLAG_DCI_STREAM
	modifyOOO       = 1 << 0  // C: MLX5_IB_MODIFY_QP_OOO_DP
	cqPad128        = 1 << 0  // C: MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD
	wqStriding      = 1 << 0  // C: MLX5_IB_CREATE_WQ_STRIDING_RQ
	attrQueryUCtx   = 1 << 12 // C: MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX
	driverNamespace = 1 << 12 // C: UVERBS_ID_DRIVER_NS
)

// The sizes of older versions of struct mlx5_ib_alloc_ucontext_req_v2.
const (
	getContextV1 = 24 // without libCaps
	getContextV0 = 16 // without maxCQEVersion
)

// contextInfo has the driver's facts of a context.
type contextInfo struct{ abi.MLX5IBAllocUcontextResp }

// Flags of struct mlx5_ib_query_device_resp. C: enum mlx5_ib_query_dev_resp_flags.
const (
	deviceCompress128 = 1 << 0
	devicePad128      = 1 << 1
	deviceCredits     = 1 << 2
	deviceScatterDCT  = 1 << 3
	deviceOOO         = 1 << 4
)
