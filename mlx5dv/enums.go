package mlx5dv

import "github.com/pureverbs/pureverbs/internal/abi"

// DeviceFlags are capabilities of a device. C: enum mlx5dv_context_flags.
type DeviceFlags uint64

const (
	CQEVersion1        DeviceFlags = abi.MLX5DV_CONTEXT_FLAGS_CQE_V1
	MPWAllowed         DeviceFlags = abi.MLX5DV_CONTEXT_FLAGS_MPW_ALLOWED
	EnhancedMPW        DeviceFlags = abi.MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW
	CQE128Compression  DeviceFlags = abi.MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP
	CQE128Padding      DeviceFlags = abi.MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD
	PacketBasedCredits DeviceFlags = abi.MLX5DV_CONTEXT_FLAGS_PACKET_BASED_CREDIT_MODE
	RealTimeTimestamps DeviceFlags = abi.MLX5DV_CONTEXT_FLAGS_REAL_TIME_TS
	BlueFlame          DeviceFlags = abi.MLX5DV_CONTEXT_FLAGS_BLUEFLAME // reported since rdma-core v58
)

// Features are the parts of DeviceAttr that the library and the device reported.
// C: enum mlx5dv_context_comp_mask.
type Features uint64

const (
	HasCQECompression  Features = abi.MLX5DV_CONTEXT_MASK_CQE_COMPRESION
	HasSWParsing       Features = abi.MLX5DV_CONTEXT_MASK_SWP
	HasStridingRQ      Features = abi.MLX5DV_CONTEXT_MASK_STRIDING_RQ
	HasTunnelOffloads  Features = abi.MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS
	HasDynamicBFRegs   Features = abi.MLX5DV_CONTEXT_MASK_DYN_BFREGS
	HasClockInfoUpdate Features = abi.MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE
	HasFlowActions     Features = abi.MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS
	HasDCODP           Features = abi.MLX5DV_CONTEXT_MASK_DC_ODP_CAPS
	HasHCACoreClock    Features = abi.MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK
	HasLAGPorts        Features = abi.MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS
	HasSignature       Features = abi.MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD
	HasDCIStreams      Features = abi.MLX5DV_CONTEXT_MASK_DCI_STREAMS
	HasWRMemcpy        Features = abi.MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH
	HasCrypto          Features = abi.MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD
	HasDCRdAtom        Features = abi.MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM
	HasRegC0           Features = abi.MLX5DV_CONTEXT_MASK_REG_C0
	HasOOORecv         Features = abi.MLX5DV_CONTEXT_MASK_OOO_RECV_WRS
)

// CQEFormats are formats of compressed completions. C: enum mlx5dv_cqe_comp_res_format.
type CQEFormats uint32

const (
	CQEHash           CQEFormats = abi.MLX5DV_CQE_RES_FORMAT_HASH
	CQEChecksum       CQEFormats = abi.MLX5DV_CQE_RES_FORMAT_CSUM
	CQEChecksumStride CQEFormats = abi.MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX
)

// SWParsing is the set of offloads for which software describes a packet's headers.
// C: enum mlx5dv_sw_parsing_offloads.
type SWParsing uint32

const (
	SWParse         SWParsing = abi.MLX5DV_SW_PARSING
	SWParseChecksum SWParsing = abi.MLX5DV_SW_PARSING_CSUM
	SWParseLSO      SWParsing = abi.MLX5DV_SW_PARSING_LSO
)

// TunnelOffloads are tunnels whose inner packets the device parses. C: enum mlx5dv_tunnel_offloads.
type TunnelOffloads uint32

const (
	TunnelVXLAN       TunnelOffloads = abi.MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_VXLAN
	TunnelGRE         TunnelOffloads = abi.MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GRE
	TunnelGENEVE      TunnelOffloads = abi.MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GENEVE
	TunnelMPLSOverGRE TunnelOffloads = abi.MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_CW_MPLS_OVER_GRE
	TunnelMPLSOverUDP TunnelOffloads = abi.MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_CW_MPLS_OVER_UDP
)

// FlowActions are capabilities of ESP flow actions. C: enum mlx5dv_flow_action_cap_flags.
type FlowActions uint32

const (
	FlowESPAESGCM            FlowActions = abi.MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM
	FlowESPAESGCMReqMetadata FlowActions = abi.MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_REQ_METADATA
	FlowESPAESGCMSPISteering FlowActions = abi.MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_SPI_STEERING
	FlowESPAESGCMFullOffload FlowActions = abi.MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_FULL_OFFLOAD
	FlowESPAESGCMTXIVIsESN   FlowActions = abi.MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_TX_IV_IS_ESN
)

// SigProtections are kinds of block signatures. C: enum mlx5dv_sig_prot_caps.
type SigProtections uint32

const (
	SigT10DIF SigProtections = abi.MLX5DV_SIG_PROT_CAP_T10DIF
	SigCRC    SigProtections = abi.MLX5DV_SIG_PROT_CAP_CRC
)

// T10DIFGuards are guards of T10-DIF blocks. C: enum mlx5dv_sig_t10dif_bg_caps.
type T10DIFGuards uint16

const (
	GuardCRC      T10DIFGuards = abi.MLX5DV_SIG_T10DIF_BG_CAP_CRC
	GuardChecksum T10DIFGuards = abi.MLX5DV_SIG_T10DIF_BG_CAP_CSUM
)

// CRCs are checksums of signatures. C: enum mlx5dv_sig_crc_type_caps.
type CRCs uint16

const (
	CRC32  CRCs = abi.MLX5DV_SIG_CRC_TYPE_CAP_CRC32
	CRC32C CRCs = abi.MLX5DV_SIG_CRC_TYPE_CAP_CRC32C
)

// CRC64XP10 is the 64-bit checksum of NVMe.
//
// Experimental: no device has run this. See docs/stability.md.
const CRC64XP10 CRCs = abi.MLX5DV_SIG_CRC_TYPE_CAP_CRC64_XP10

// BlockSizes are sizes of signed blocks, in bytes. C: enum mlx5dv_block_size_caps.
type BlockSizes uint64

const (
	Block512  BlockSizes = abi.MLX5DV_BLOCK_SIZE_CAP_512
	Block520  BlockSizes = abi.MLX5DV_BLOCK_SIZE_CAP_520
	Block4048 BlockSizes = abi.MLX5DV_BLOCK_SIZE_CAP_4048
	Block4096 BlockSizes = abi.MLX5DV_BLOCK_SIZE_CAP_4096
	Block4160 BlockSizes = abi.MLX5DV_BLOCK_SIZE_CAP_4160
)

// CryptoEngines are ciphers. C: enum mlx5dv_crypto_engines_caps.
type CryptoEngines uint8

const (
	CryptoAESXTS            CryptoEngines = abi.MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS
	CryptoAESXTSSingleBlock CryptoEngines = abi.MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_SINGLE_BLOCK
	CryptoAESXTSMultiBlock  CryptoEngines = abi.MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_MULTI_BLOCK
)

// CryptoImports are ways to import a wrapped key.
// C: enum mlx5dv_crypto_wrapped_import_method_caps.
type CryptoImports uint8

const ImportAESXTS CryptoImports = abi.MLX5DV_CRYPTO_WRAPPED_IMPORT_METHOD_CAP_AES_XTS

// CryptoFlags describe the support for encryption and its state. C: enum mlx5dv_crypto_caps_flags.
type CryptoFlags uint32

const (
	CryptoPresent              CryptoFlags = abi.MLX5DV_CRYPTO_CAPS_CRYPTO
	CryptoWrappedOperational   CryptoFlags = abi.MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_OPERATIONAL
	CryptoWrappedCommissioning CryptoFlags = abi.MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_GOING_TO_COMMISSIONING
)

// QPCreateFlags are options for creating a QP. C: enum mlx5dv_qp_create_flags.
type QPCreateFlags uint32

const (
	// TunnelOffloaded applies offloads to tunneled packets, on RawPacket QPs.
	TunnelOffloaded QPCreateFlags = abi.MLX5DV_QP_CREATE_TUNNEL_OFFLOADS
	// SelfLoopbackUnicast and SelfLoopbackMulticast receive packets that the same port sends, on
	// RawPacket QPs.
	SelfLoopbackUnicast   QPCreateFlags = abi.MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC
	SelfLoopbackMulticast QPCreateFlags = abi.MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC
	// DisableScatterToCQE keeps short payloads out of completions: the device always writes them to
	// the receive's memory.
	DisableScatterToCQE QPCreateFlags = abi.MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE
	// AllowScatterToCQE also lets the device put the data of short reads and atomics in completions.
	AllowScatterToCQE QPCreateFlags = abi.MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE
	// PacketBasedCreditMode counts credits in packets, for peers that require it.
	PacketBasedCreditMode QPCreateFlags = abi.MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE
	// SignaturePipelining stops the send queue at a signature error.
	SignaturePipelining QPCreateFlags = abi.MLX5DV_QP_CREATE_SIG_PIPELINING
	// OutOfOrderData places data in memory in the order of its arrival.
	OutOfOrderData QPCreateFlags = abi.MLX5DV_QP_CREATE_OOO_DP
)
