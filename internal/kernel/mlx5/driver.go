package mlx5

import "structs"

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

// getContext is struct mlx5_ib_alloc_ucontext_req_v2.
type getContext struct {
	_                                    structs.HostLayout
	totalBFRegs, lowLatency, flags, mask uint32
	maxCQEVersion, _                     uint8
	_                                    uint16
	_                                    uint32
	libCaps                              uint64
}

// The sizes of its older versions.
const (
	getContextV1 = 24 // without libCaps
	getContextV0 = 16 // without maxCQEVersion
)

// contextInfo is struct mlx5_ib_alloc_ucontext_resp.
type contextInfo struct {
	_                                                structs.HostLayout
	qpTableSize, bfRegSize, totalBFRegs, cacheLine   uint32
	maxSQDesc, maxRQDesc                             uint16
	maxSendBlocks, maxRecvWR, maxSRQWR               uint32
	ports, flowActions                               uint16
	mask, length                                     uint32
	cqeVersion, supportsUHW, minInline, clockVersion uint8
	clockOffset                                      uint64
	logUARSize, uarsPerPage, dynBFRegs, dumpFillKey  uint32
}

// createCQ is struct mlx5_ib_create_cq.
type createCQ struct {
	_                      structs.HostLayout
	buf, db                uint64
	cqeSize                uint32
	compressed, compFormat uint8
	flags, uarPage         uint16
	_                      uint16
	_                      uint32
}

// numberResp is struct mlx5_ib_create_cq_resp, mlx5_ib_create_srq_resp and mlx5_ib_alloc_pd_resp.
type numberResp struct {
	_      structs.HostLayout
	number uint32
	_      uint32
}

// createSRQ is struct mlx5_ib_create_srq.
type createSRQ struct {
	_                 structs.HostLayout
	buf, db           uint64
	flags, _, uidx, _ uint32
}

// createQP is struct mlx5_ib_create_qp.
type createQP struct {
	_                                              structs.HostLayout
	buf, db                                        uint64
	sqBlocks, rqCount, rqShift, flags, uidx, bfreg uint32
	sqBuf                                          uint64 // of a DCT the key
	ece                                            uint32
	streams                                        [2]uint8 // of a DCI: log2 of how many, and of how many in error
	_                                              uint16
}

// createQPResp is struct mlx5_ib_create_qp_resp.
type createQPResp struct {
	_                                         structs.HostLayout
	bfreg, ece, mask, tirn, tisn, rqn, sqn, _ uint32
	tirICM                                    uint64
}

// createAHResp is struct mlx5_ib_create_ah_resp.
type createAHResp struct {
	_      structs.HostLayout
	length uint32
	mac    [6]byte
	_      [6]byte
}

// deviceResp is struct mlx5_ib_query_device_resp, as far as it is used.
type deviceResp struct {
	_                          structs.HostLayout
	mask, length               uint32
	maxTSO, tsoQPTs            uint32
	hashFields                 uint64
	hashFunction               uint8
	_                          [7]uint8
	compressMax, compressForms uint32
	minRate, maxRate           uint32
	rateQPTs                   uint32
	rateFlags                  uint8
	_                          [3]uint8
	multiPacketWQEs, flags     uint32
	swParsing                  [2]uint32
	striding                   [6]uint32
	tunnels                    uint32
	dciStreams                 [2]uint8
	_                          uint16
	regC0                      [2]uint32
}

// Flags of deviceResp. C: enum mlx5_ib_query_dev_resp_flags.
const (
	deviceCompress128 = 1 << 0
	devicePad128      = 1 << 1
	deviceCredits     = 1 << 2
	deviceScatterDCT  = 1 << 3
	deviceOOO         = 1 << 4
)

// createWQ is struct mlx5_ib_create_wq.
type createWQ struct {
	_                        structs.HostLayout
	buf, db                  uint64
	wqes, shift, uidx, flags uint32
	mask                     uint32
	striding                 [3]uint32
}

// createRSS is struct mlx5_ib_create_qp_rss.
type createRSS struct {
	_           structs.HostLayout
	fields      uint64
	function    uint8
	keyLen      uint8
	_           [6]uint8
	key         [128]byte
	mask, flags uint32
}

// modifyQP is struct mlx5_ib_modify_qp.
type modifyQP struct {
	_             structs.HostLayout
	mask, burst   uint32
	typicalPacket uint16
	_             uint16
	ece           uint32
}

// modifyQPResp is struct mlx5_ib_modify_qp_resp.
type modifyQPResp struct {
	_                    structs.HostLayout
	length, dctn, ece, _ uint32
}
