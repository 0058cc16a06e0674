package mlx5

import "github.com/pureverbs/pureverbs/internal/abi"

// The driver's part of commands, of rdma/mlx5-abi.h and rdma/mlx5_user_ioctl_cmds.h.

const (
	driverID = 1 // C: RDMA_DRIVER_MLX5

	cqeVersionV1 = 1 // C: MLX5_CQE_VERSION_V1
	noUserIndex  = 0xffffff

	driverNamespace = 1 << 12 // C: UVERBS_ID_DRIVER_NS
)

// The sizes of older versions of struct mlx5_ib_alloc_ucontext_req_v2.
const (
	getContextV1 = 24 // without LibCaps
	getContextV0 = 16 // without MaxCQEVersion
)

// contextInfo has the driver's facts of a context.
type contextInfo struct{ abi.MLX5IBAllocUcontextResp }
