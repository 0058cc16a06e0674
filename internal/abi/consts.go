package abi

// Constants of infiniband/verbs.h, rdma-core v65, by enum.

// enum ibv_node_type.
const (
	IBV_NODE_UNKNOWN     = -1
	IBV_NODE_CA          = 1
	IBV_NODE_SWITCH      = 2
	IBV_NODE_ROUTER      = 3
	IBV_NODE_RNIC        = 4
	IBV_NODE_USNIC       = 5
	IBV_NODE_USNIC_UDP   = 6
	IBV_NODE_UNSPECIFIED = 7
)

// enum ibv_transport_type.
const (
	IBV_TRANSPORT_UNKNOWN     = -1
	IBV_TRANSPORT_IB          = 0
	IBV_TRANSPORT_IWARP       = 1
	IBV_TRANSPORT_USNIC       = 2
	IBV_TRANSPORT_USNIC_UDP   = 3
	IBV_TRANSPORT_UNSPECIFIED = 4
)

// enum ibv_device_cap_flags.
const (
	IBV_DEVICE_RESIZE_MAX_WR         = 1 << 0
	IBV_DEVICE_BAD_PKEY_CNTR         = 1 << 1
	IBV_DEVICE_BAD_QKEY_CNTR         = 1 << 2
	IBV_DEVICE_RAW_MULTI             = 1 << 3
	IBV_DEVICE_AUTO_PATH_MIG         = 1 << 4
	IBV_DEVICE_CHANGE_PHY_PORT       = 1 << 5
	IBV_DEVICE_UD_AV_PORT_ENFORCE    = 1 << 6
	IBV_DEVICE_CURR_QP_STATE_MOD     = 1 << 7
	IBV_DEVICE_SHUTDOWN_PORT         = 1 << 8
	IBV_DEVICE_INIT_TYPE             = 1 << 9
	IBV_DEVICE_PORT_ACTIVE_EVENT     = 1 << 10
	IBV_DEVICE_SYS_IMAGE_GUID        = 1 << 11
	IBV_DEVICE_RC_RNR_NAK_GEN        = 1 << 12
	IBV_DEVICE_SRQ_RESIZE            = 1 << 13
	IBV_DEVICE_N_NOTIFY_CQ           = 1 << 14
	IBV_DEVICE_MEM_WINDOW            = 1 << 17
	IBV_DEVICE_UD_IP_CSUM            = 1 << 18
	IBV_DEVICE_XRC                   = 1 << 20
	IBV_DEVICE_MEM_MGT_EXTENSIONS    = 1 << 21
	IBV_DEVICE_MEM_WINDOW_TYPE_2A    = 1 << 23
	IBV_DEVICE_MEM_WINDOW_TYPE_2B    = 1 << 24
	IBV_DEVICE_RC_IP_CSUM            = 1 << 25
	IBV_DEVICE_RAW_IP_CSUM           = 1 << 26
	IBV_DEVICE_MANAGED_FLOW_STEERING = 1 << 29
)

// enum ibv_atomic_cap.
const (
	IBV_ATOMIC_NONE = 0
	IBV_ATOMIC_HCA  = 1
	IBV_ATOMIC_GLOB = 2
)

// enum ibv_odp_general_caps.
const (
	IBV_ODP_SUPPORT          = 1 << 0
	IBV_ODP_SUPPORT_IMPLICIT = 1 << 1
)

// enum ibv_odp_transport_cap_bits.
const (
	IBV_ODP_SUPPORT_SEND         = 1 << 0
	IBV_ODP_SUPPORT_RECV         = 1 << 1
	IBV_ODP_SUPPORT_WRITE        = 1 << 2
	IBV_ODP_SUPPORT_READ         = 1 << 3
	IBV_ODP_SUPPORT_ATOMIC       = 1 << 4
	IBV_ODP_SUPPORT_SRQ_RECV     = 1 << 5
	IBV_ODP_SUPPORT_FLUSH        = 1 << 6
	IBV_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7
)

// enum ibv_raw_packet_caps.
const (
	IBV_RAW_PACKET_CAP_CVLAN_STRIPPING = 1 << 0
	IBV_RAW_PACKET_CAP_SCATTER_FCS     = 1 << 1
	IBV_RAW_PACKET_CAP_IP_CSUM         = 1 << 2
	IBV_RAW_PACKET_CAP_DELAY_DROP      = 1 << 3
)

// enum ibv_tm_cap_flags.
const (
	IBV_TM_CAP_RC = 1 << 0
)

// enum ibv_pci_atomic_op_size.
const (
	IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP  = 1
	IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP  = 2
	IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP = 4
)

// enum ibv_mtu.
const (
	IBV_MTU_256  = 1
	IBV_MTU_512  = 2
	IBV_MTU_1024 = 3
	IBV_MTU_2048 = 4
	IBV_MTU_4096 = 5
)

// enum ibv_port_state.
const (
	IBV_PORT_NOP          = 0
	IBV_PORT_DOWN         = 1
	IBV_PORT_INIT         = 2
	IBV_PORT_ARMED        = 3
	IBV_PORT_ACTIVE       = 4
	IBV_PORT_ACTIVE_DEFER = 5
)

// enum ibv_port_cap_flags.
const (
	IBV_PORT_SM                        = 1 << 1
	IBV_PORT_NOTICE_SUP                = 1 << 2
	IBV_PORT_TRAP_SUP                  = 1 << 3
	IBV_PORT_OPT_IPD_SUP               = 1 << 4
	IBV_PORT_AUTO_MIGR_SUP             = 1 << 5
	IBV_PORT_SL_MAP_SUP                = 1 << 6
	IBV_PORT_MKEY_NVRAM                = 1 << 7
	IBV_PORT_PKEY_NVRAM                = 1 << 8
	IBV_PORT_LED_INFO_SUP              = 1 << 9
	IBV_PORT_SYS_IMAGE_GUID_SUP        = 1 << 11
	IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP = 1 << 12
	IBV_PORT_EXTENDED_SPEEDS_SUP       = 1 << 14
	IBV_PORT_CAP_MASK2_SUP             = 1 << 15
	IBV_PORT_CM_SUP                    = 1 << 16
	IBV_PORT_SNMP_TUNNEL_SUP           = 1 << 17
	IBV_PORT_REINIT_SUP                = 1 << 18
	IBV_PORT_DEVICE_MGMT_SUP           = 1 << 19
	IBV_PORT_VENDOR_CLASS_SUP          = 1 << 20
	IBV_PORT_DR_NOTICE_SUP             = 1 << 21
	IBV_PORT_CAP_MASK_NOTICE_SUP       = 1 << 22
	IBV_PORT_BOOT_MGMT_SUP             = 1 << 23
	IBV_PORT_LINK_LATENCY_SUP          = 1 << 24
	IBV_PORT_CLIENT_REG_SUP            = 1 << 25
	IBV_PORT_IP_BASED_GIDS             = 1 << 26
)

// enum ibv_port_cap_flags2.
const (
	IBV_PORT_SET_NODE_DESC_SUP           = 1 << 0
	IBV_PORT_INFO_EXT_SUP                = 1 << 1
	IBV_PORT_VIRT_SUP                    = 1 << 2
	IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP = 1 << 3
	IBV_PORT_LINK_WIDTH_2X_SUP           = 1 << 4
	IBV_PORT_LINK_SPEED_HDR_SUP          = 1 << 5
	IBV_PORT_LINK_SPEED_NDR_SUP          = 1 << 10
	IBV_PORT_LINK_SPEED_XDR_SUP          = 1 << 12
)

// enum ibv_event_type.
const (
	IBV_EVENT_CQ_ERR              = 0
	IBV_EVENT_QP_FATAL            = 1
	IBV_EVENT_QP_REQ_ERR          = 2
	IBV_EVENT_QP_ACCESS_ERR       = 3
	IBV_EVENT_COMM_EST            = 4
	IBV_EVENT_SQ_DRAINED          = 5
	IBV_EVENT_PATH_MIG            = 6
	IBV_EVENT_PATH_MIG_ERR        = 7
	IBV_EVENT_DEVICE_FATAL        = 8
	IBV_EVENT_PORT_ACTIVE         = 9
	IBV_EVENT_PORT_ERR            = 10
	IBV_EVENT_LID_CHANGE          = 11
	IBV_EVENT_PKEY_CHANGE         = 12
	IBV_EVENT_SM_CHANGE           = 13
	IBV_EVENT_SRQ_ERR             = 14
	IBV_EVENT_SRQ_LIMIT_REACHED   = 15
	IBV_EVENT_QP_LAST_WQE_REACHED = 16
	IBV_EVENT_CLIENT_REREGISTER   = 17
	IBV_EVENT_GID_CHANGE          = 18
	IBV_EVENT_WQ_FATAL            = 19
	IBV_EVENT_DEVICE_SPEED_CHANGE = 20
)

// enum ibv_gid_type.
const (
	IBV_GID_TYPE_IB      = 0
	IBV_GID_TYPE_ROCE_V1 = 1
	IBV_GID_TYPE_ROCE_V2 = 2
)

// enum ibv_wc_status.
const (
	IBV_WC_SUCCESS            = 0
	IBV_WC_LOC_LEN_ERR        = 1
	IBV_WC_LOC_QP_OP_ERR      = 2
	IBV_WC_LOC_EEC_OP_ERR     = 3
	IBV_WC_LOC_PROT_ERR       = 4
	IBV_WC_WR_FLUSH_ERR       = 5
	IBV_WC_MW_BIND_ERR        = 6
	IBV_WC_BAD_RESP_ERR       = 7
	IBV_WC_LOC_ACCESS_ERR     = 8
	IBV_WC_REM_INV_REQ_ERR    = 9
	IBV_WC_REM_ACCESS_ERR     = 10
	IBV_WC_REM_OP_ERR         = 11
	IBV_WC_RETRY_EXC_ERR      = 12
	IBV_WC_RNR_RETRY_EXC_ERR  = 13
	IBV_WC_LOC_RDD_VIOL_ERR   = 14
	IBV_WC_REM_INV_RD_REQ_ERR = 15
	IBV_WC_REM_ABORT_ERR      = 16
	IBV_WC_INV_EECN_ERR       = 17
	IBV_WC_INV_EEC_STATE_ERR  = 18
	IBV_WC_FATAL_ERR          = 19
	IBV_WC_RESP_TIMEOUT_ERR   = 20
	IBV_WC_GENERAL_ERR        = 21
	IBV_WC_TM_ERR             = 22
	IBV_WC_TM_RNDV_INCOMPLETE = 23
)

// enum ibv_wc_opcode.
const (
	IBV_WC_SEND               = 0
	IBV_WC_RDMA_WRITE         = 1
	IBV_WC_RDMA_READ          = 2
	IBV_WC_COMP_SWAP          = 3
	IBV_WC_FETCH_ADD          = 4
	IBV_WC_BIND_MW            = 5
	IBV_WC_LOCAL_INV          = 6
	IBV_WC_TSO                = 7
	IBV_WC_FLUSH              = 8
	IBV_WC_ATOMIC_WRITE       = 9
	IBV_WC_RECV               = 128
	IBV_WC_RECV_RDMA_WITH_IMM = 129
	IBV_WC_TM_ADD             = 130
	IBV_WC_TM_DEL             = 131
	IBV_WC_TM_SYNC            = 132
	IBV_WC_TM_RECV            = 133
	IBV_WC_TM_NO_TAG          = 134
	IBV_WC_DRIVER1            = 135
	IBV_WC_DRIVER2            = 136
	IBV_WC_DRIVER3            = 137
)

// enum ibv_wc_flags.
const (
	IBV_WC_GRH           = 1 << 0
	IBV_WC_WITH_IMM      = 1 << 1
	IBV_WC_IP_CSUM_OK    = 1 << 2
	IBV_WC_WITH_INV      = 1 << 3
	IBV_WC_TM_SYNC_REQ   = 1 << 4
	IBV_WC_TM_MATCH      = 1 << 5
	IBV_WC_TM_DATA_VALID = 1 << 6
)

// enum ibv_create_cq_wc_flags.
const (
	IBV_WC_EX_WITH_BYTE_LEN                       = 1 << 0
	IBV_WC_EX_WITH_IMM                            = 1 << 1
	IBV_WC_EX_WITH_QP_NUM                         = 1 << 2
	IBV_WC_EX_WITH_SRC_QP                         = 1 << 3
	IBV_WC_EX_WITH_SLID                           = 1 << 4
	IBV_WC_EX_WITH_SL                             = 1 << 5
	IBV_WC_EX_WITH_DLID_PATH_BITS                 = 1 << 6
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP           = 1 << 7
	IBV_WC_EX_WITH_CVLAN                          = 1 << 8
	IBV_WC_EX_WITH_FLOW_TAG                       = 1 << 9
	IBV_WC_EX_WITH_TM_INFO                        = 1 << 10
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = 1 << 11
)

// enum ibv_cq_init_attr_mask.
const (
	IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 0
	IBV_CQ_INIT_ATTR_MASK_PD    = 1 << 1
)

// enum ibv_create_cq_attr_flags.
const (
	IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 << 0
	IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN  = 1 << 1
)

// enum ibv_cq_attr_mask.
const (
	IBV_CQ_ATTR_MODERATE = 1 << 0
)

// enum ibv_access_flags.
const (
	IBV_ACCESS_LOCAL_WRITE      = 1 << 0
	IBV_ACCESS_REMOTE_WRITE     = 1 << 1
	IBV_ACCESS_REMOTE_READ      = 1 << 2
	IBV_ACCESS_REMOTE_ATOMIC    = 1 << 3
	IBV_ACCESS_MW_BIND          = 1 << 4
	IBV_ACCESS_ZERO_BASED       = 1 << 5
	IBV_ACCESS_ON_DEMAND        = 1 << 6
	IBV_ACCESS_HUGETLB          = 1 << 7
	IBV_ACCESS_FLUSH_GLOBAL     = 1 << 8
	IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9
	IBV_ACCESS_RELAXED_ORDERING = 1 << 20
)

// enum ibv_rereg_mr_flags.
const (
	IBV_REREG_MR_CHANGE_TRANSLATION = 1 << 0
	IBV_REREG_MR_CHANGE_PD          = 1 << 1
	IBV_REREG_MR_CHANGE_ACCESS      = 1 << 2
)

// enum ibv_rereg_mr_err_code.
const (
	IBV_REREG_MR_ERR_INPUT               = -1
	IBV_REREG_MR_ERR_DONT_FORK_NEW       = -2
	IBV_REREG_MR_ERR_DO_FORK_OLD         = -3
	IBV_REREG_MR_ERR_CMD                 = -4
	IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5
)

// enum ibv_mr_init_attr_mask.
const (
	IBV_REG_MR_MASK_IOVA      = 1 << 0
	IBV_REG_MR_MASK_ADDR      = 1 << 1
	IBV_REG_MR_MASK_FD        = 1 << 2
	IBV_REG_MR_MASK_FD_OFFSET = 1 << 3
	IBV_REG_MR_MASK_DMAH      = 1 << 4
	IBV_REG_MR_MASK_BUF       = 1 << 5
)

// enum ibv_dm_mask.
const IBV_DM_MASK_HANDLE = 1

// enum ib_uverbs_advise_mr_advice, ib_uverbs_advise_mr_flag.
const (
	IBV_ADVISE_MR_ADVICE_PREFETCH          = 0
	IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE    = 1
	IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT = 2
	IBV_ADVISE_MR_FLAG_FLUSH               = 1
)

// enum mlx5_ib_uapi_dm_type, mlx5_ib_uapi_reg_dmabuf_flags.
const (
	MLX5DV_DM_TYPE_MEMIC                        = 0
	MLX5DV_DM_TYPE_STEERING_SW_ICM              = 1
	MLX5DV_DM_TYPE_HEADER_MODIFY_SW_ICM         = 2
	MLX5DV_DM_TYPE_HEADER_MODIFY_PATTERN_SW_ICM = 3
	MLX5DV_DM_TYPE_ENCAP_SW_ICM                 = 4
	MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT        = 1
)

// enum ibv_dmah_init_attr_mask.
const (
	IBV_DMAH_INIT_ATTR_MASK_CPU_ID       = 1 << 0
	IBV_DMAH_INIT_ATTR_MASK_PH           = 1 << 1
	IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = 1 << 2
)

// enum ibv_tph_mem_type.
const (
	IBV_TPH_MEM_TYPE_VM = 0
	IBV_TPH_MEM_TYPE_PM = 1
)

// enum ibv_mw_type.
const (
	IBV_MW_TYPE_1 = 1
	IBV_MW_TYPE_2 = 2
)

// enum ibv_rate.
const (
	IBV_RATE_MAX       = 0
	IBV_RATE_2_5_GBPS  = 2
	IBV_RATE_5_GBPS    = 5
	IBV_RATE_10_GBPS   = 3
	IBV_RATE_20_GBPS   = 6
	IBV_RATE_30_GBPS   = 4
	IBV_RATE_40_GBPS   = 7
	IBV_RATE_60_GBPS   = 8
	IBV_RATE_80_GBPS   = 9
	IBV_RATE_120_GBPS  = 10
	IBV_RATE_14_GBPS   = 11
	IBV_RATE_56_GBPS   = 12
	IBV_RATE_112_GBPS  = 13
	IBV_RATE_168_GBPS  = 14
	IBV_RATE_25_GBPS   = 15
	IBV_RATE_100_GBPS  = 16
	IBV_RATE_200_GBPS  = 17
	IBV_RATE_300_GBPS  = 18
	IBV_RATE_28_GBPS   = 19
	IBV_RATE_50_GBPS   = 20
	IBV_RATE_400_GBPS  = 21
	IBV_RATE_600_GBPS  = 22
	IBV_RATE_800_GBPS  = 23
	IBV_RATE_1200_GBPS = 24
)

// enum ibv_srq_type.
const (
	IBV_SRQT_BASIC = 0
	IBV_SRQT_XRC   = 1
	IBV_SRQT_TM    = 2
)

// enum ibv_srq_attr_mask.
const (
	IBV_SRQ_MAX_WR = 1 << 0
	IBV_SRQ_LIMIT  = 1 << 1
)

// enum ibv_srq_init_attr_mask.
const (
	IBV_SRQ_INIT_ATTR_TYPE = 1 << 0
	IBV_SRQ_INIT_ATTR_PD   = 1 << 1
	IBV_SRQ_INIT_ATTR_XRCD = 1 << 2
	IBV_SRQ_INIT_ATTR_CQ   = 1 << 3
	IBV_SRQ_INIT_ATTR_TM   = 1 << 4
)

// enum ibv_xrcd_init_attr_mask.
const (
	IBV_XRCD_INIT_ATTR_FD     = 1 << 0
	IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1
)

// enum ibv_qp_open_attr_mask.
const (
	IBV_QP_OPEN_ATTR_NUM     = 1 << 0
	IBV_QP_OPEN_ATTR_XRCD    = 1 << 1
	IBV_QP_OPEN_ATTR_CONTEXT = 1 << 2
	IBV_QP_OPEN_ATTR_TYPE    = 1 << 3
)

// enum ibv_ops_wr_opcode.
const (
	IBV_WR_TAG_ADD  = 0
	IBV_WR_TAG_DEL  = 1
	IBV_WR_TAG_SYNC = 2
)

// enum ibv_ops_flags.
const (
	IBV_OPS_SIGNALED = 1 << 0
	IBV_OPS_TM_SYNC  = 1 << 1
)

// enum ibv_query_qp_data_in_order_flags.
const (
	IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS = 1 << 0
	IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY = 1 << 1
)

// enum ibv_query_qp_data_in_order_caps.
const (
	IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG         = 1 << 0
	IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES = 1 << 1
)

// enum ibv_qp_type.
const (
	IBV_QPT_RC         = 2
	IBV_QPT_UC         = 3
	IBV_QPT_UD         = 4
	IBV_QPT_RAW_PACKET = 8
	IBV_QPT_XRC_SEND   = 9
	IBV_QPT_XRC_RECV   = 10
	IBV_QPT_DRIVER     = 255
)

// enum ibv_qp_state.
const (
	IBV_QPS_RESET   = 0
	IBV_QPS_INIT    = 1
	IBV_QPS_RTR     = 2
	IBV_QPS_RTS     = 3
	IBV_QPS_SQD     = 4
	IBV_QPS_SQE     = 5
	IBV_QPS_ERR     = 6
	IBV_QPS_UNKNOWN = 7
)

// enum ibv_mig_state.
const (
	IBV_MIG_MIGRATED = 0
	IBV_MIG_REARM    = 1
	IBV_MIG_ARMED    = 2
)

// enum ibv_qp_attr_mask.
const (
	IBV_QP_STATE               = 1 << 0
	IBV_QP_CUR_STATE           = 1 << 1
	IBV_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2
	IBV_QP_ACCESS_FLAGS        = 1 << 3
	IBV_QP_PKEY_INDEX          = 1 << 4
	IBV_QP_PORT                = 1 << 5
	IBV_QP_QKEY                = 1 << 6
	IBV_QP_AV                  = 1 << 7
	IBV_QP_PATH_MTU            = 1 << 8
	IBV_QP_TIMEOUT             = 1 << 9
	IBV_QP_RETRY_CNT           = 1 << 10
	IBV_QP_RNR_RETRY           = 1 << 11
	IBV_QP_RQ_PSN              = 1 << 12
	IBV_QP_MAX_QP_RD_ATOMIC    = 1 << 13
	IBV_QP_ALT_PATH            = 1 << 14
	IBV_QP_MIN_RNR_TIMER       = 1 << 15
	IBV_QP_SQ_PSN              = 1 << 16
	IBV_QP_MAX_DEST_RD_ATOMIC  = 1 << 17
	IBV_QP_PATH_MIG_STATE      = 1 << 18
	IBV_QP_CAP                 = 1 << 19
	IBV_QP_DEST_QPN            = 1 << 20
	IBV_QP_RATE_LIMIT          = 1 << 25
)

// enum ibv_qp_init_attr_mask.
const (
	IBV_QP_INIT_ATTR_PD             = 1 << 0
	IBV_QP_INIT_ATTR_XRCD           = 1 << 1
	IBV_QP_INIT_ATTR_CREATE_FLAGS   = 1 << 2
	IBV_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 3
	IBV_QP_INIT_ATTR_IND_TABLE      = 1 << 4
	IBV_QP_INIT_ATTR_RX_HASH        = 1 << 5
	IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 1 << 6
)

// enum ibv_qp_create_flags.
const (
	IBV_QP_CREATE_BLOCK_SELF_MCAST_LB   = 1 << 1
	IBV_QP_CREATE_SCATTER_FCS           = 1 << 8
	IBV_QP_CREATE_CVLAN_STRIPPING       = 1 << 9
	IBV_QP_CREATE_SOURCE_QPN            = 1 << 10
	IBV_QP_CREATE_PCI_WRITE_END_PADDING = 1 << 11
)

// enum ibv_flow_flags.
const (
	IBV_FLOW_ATTR_FLAGS_DONT_TRAP = 2
	IBV_FLOW_ATTR_FLAGS_EGRESS    = 4
)

// enum ibv_flow_attr_type.
const (
	IBV_FLOW_ATTR_NORMAL      = 0
	IBV_FLOW_ATTR_ALL_DEFAULT = 1
	IBV_FLOW_ATTR_MC_DEFAULT  = 2
	IBV_FLOW_ATTR_SNIFFER     = 3
)

// enum ibv_flow_spec_type.
const (
	IBV_FLOW_SPEC_ETH           = 0x20
	IBV_FLOW_SPEC_IPV4          = 0x30
	IBV_FLOW_SPEC_IPV6          = 0x31
	IBV_FLOW_SPEC_IPV4_EXT      = 0x32
	IBV_FLOW_SPEC_ESP           = 0x34
	IBV_FLOW_SPEC_TCP           = 0x40
	IBV_FLOW_SPEC_UDP           = 0x41
	IBV_FLOW_SPEC_VXLAN_TUNNEL  = 0x50
	IBV_FLOW_SPEC_GRE           = 0x51
	IBV_FLOW_SPEC_MPLS          = 0x60
	IBV_FLOW_SPEC_INNER         = 0x100
	IBV_FLOW_SPEC_ACTION_TAG    = 0x1000
	IBV_FLOW_SPEC_ACTION_DROP   = 0x1001
	IBV_FLOW_SPEC_ACTION_HANDLE = 0x1002
	IBV_FLOW_SPEC_ACTION_COUNT  = 0x1003
)

// enum ibv_counter_description.
const (
	IBV_COUNTER_PACKETS = 0
	IBV_COUNTER_BYTES   = 1
)

// enum ibv_comp_cntr_type.
const (
	IBV_COMP_CNTR_TYPE_WRS   = 0
	IBV_COMP_CNTR_TYPE_BYTES = 1
)

// enum ibv_qp_attach_comp_cntr_op.
const (
	IBV_QP_ATTACH_COMP_CNTR_OP_SEND              = 1 << 0
	IBV_QP_ATTACH_COMP_CNTR_OP_RECV              = 1 << 1
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ         = 1 << 2
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ  = 1 << 3
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE        = 1 << 4
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5
)

// enum ibv_read_counters_flags.
const (
	IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1
)

// enum ibv_flow_action_esp_mask.
const (
	IBV_FLOW_ACTION_ESP_MASK_ESN = 1
)

// IBV_FLOW_ACTION_ESP_REPLAY_*, macros for enum ib_uverbs_flow_action_esp_replay.
const (
	IBV_FLOW_ACTION_ESP_REPLAY_NONE = 0
	IBV_FLOW_ACTION_ESP_REPLAY_BMP  = 1
)

// enum ibv_qp_create_send_ops_flags.
const (
	IBV_QP_EX_WITH_RDMA_WRITE           = 1 << 0
	IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM  = 1 << 1
	IBV_QP_EX_WITH_SEND                 = 1 << 2
	IBV_QP_EX_WITH_SEND_WITH_IMM        = 1 << 3
	IBV_QP_EX_WITH_RDMA_READ            = 1 << 4
	IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP   = 1 << 5
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD = 1 << 6
	IBV_QP_EX_WITH_LOCAL_INV            = 1 << 7
	IBV_QP_EX_WITH_BIND_MW              = 1 << 8
	IBV_QP_EX_WITH_SEND_WITH_INV        = 1 << 9
	IBV_QP_EX_WITH_TSO                  = 1 << 10
	IBV_QP_EX_WITH_FLUSH                = 1 << 11
	IBV_QP_EX_WITH_ATOMIC_WRITE         = 1 << 12
)

// enum ibv_wr_opcode.
const (
	IBV_WR_RDMA_WRITE           = 0
	IBV_WR_RDMA_WRITE_WITH_IMM  = 1
	IBV_WR_SEND                 = 2
	IBV_WR_SEND_WITH_IMM        = 3
	IBV_WR_RDMA_READ            = 4
	IBV_WR_ATOMIC_CMP_AND_SWP   = 5
	IBV_WR_ATOMIC_FETCH_AND_ADD = 6
	IBV_WR_LOCAL_INV            = 7
	IBV_WR_BIND_MW              = 8
	IBV_WR_SEND_WITH_INV        = 9
	IBV_WR_TSO                  = 10
	IBV_WR_DRIVER1              = 11
	IBV_WR_FLUSH                = 14
	IBV_WR_ATOMIC_WRITE         = 15
)

// enum ibv_send_flags.
const (
	IBV_SEND_FENCE     = 1 << 0
	IBV_SEND_SIGNALED  = 1 << 1
	IBV_SEND_SOLICITED = 1 << 2
	IBV_SEND_INLINE    = 1 << 3
	IBV_SEND_IP_CSUM   = 1 << 4
)

// enum ibv_placement_type.
const (
	IBV_FLUSH_GLOBAL     = 1 << 0
	IBV_FLUSH_PERSISTENT = 1 << 1
)

// enum ibv_selectivity_level.
const (
	IBV_FLUSH_RANGE = 0
	IBV_FLUSH_MR    = 1
)

// enum ibv_parent_domain_init_attr_mask.
const (
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS                 = 1 << 0
	IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT                 = 1 << 1
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2
)

// enum ibv_values_mask.
const (
	IBV_VALUES_MASK_RAW_CLOCK = 1 << 0
)

// enum ibv_wq_type.
const (
	IBV_WQT_RQ = 0
)

// enum ibv_wq_state.
const (
	IBV_WQS_RESET   = 0
	IBV_WQS_RDY     = 1
	IBV_WQS_ERR     = 2
	IBV_WQS_UNKNOWN = 3
)

// enum ibv_wq_init_attr_mask.
const (
	IBV_WQ_INIT_ATTR_FLAGS = 1 << 0
)

// enum ibv_wq_flags.
const (
	IBV_WQ_FLAGS_CVLAN_STRIPPING       = 1 << 0
	IBV_WQ_FLAGS_SCATTER_FCS           = 1 << 1
	IBV_WQ_FLAGS_DELAY_DROP            = 1 << 2
	IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3
)

// enum ibv_wq_attr_mask.
const (
	IBV_WQ_ATTR_STATE      = 1 << 0
	IBV_WQ_ATTR_CURR_STATE = 1 << 1
	IBV_WQ_ATTR_FLAGS      = 1 << 2
)

// enum ibv_fork_status.
const (
	IBV_FORK_DISABLED = 0
	IBV_FORK_ENABLED  = 1
	IBV_FORK_UNNEEDED = 2
)

// Link layers, and what the headers #define.
const (
	IBV_LINK_LAYER_UNSPECIFIED       = 0
	IBV_LINK_LAYER_INFINIBAND        = 1
	IBV_LINK_LAYER_ETHERNET          = 2
	IBV_ACCESS_OPTIONAL_FIRST        = 1 << 20
	IBV_ACCESS_OPTIONAL_RANGE        = 0x3ff00000
	IBV_QPF_GRH_REQUIRED             = 1
	IBV_DEVICE_RAW_SCATTER_FCS       = 1 << 34
	IBV_DEVICE_PCI_WRITE_END_PADDING = 1 << 36
	IBV_DEVICE_CC_DMA_BOUNCE         = 1 << 41
)

// enum mlx5dv_obj_type.
const (
	MLX5DV_OBJ_QP  = 1
	MLX5DV_OBJ_CQ  = 2
	MLX5DV_OBJ_SRQ = 4
	MLX5DV_OBJ_RWQ = 8
	MLX5DV_OBJ_AH  = 32
	MLX5DV_OBJ_PD  = 64
)

// enum mlx5dv_context_comp_mask.
const (
	MLX5DV_CONTEXT_MASK_CQE_COMPRESION    = 1
	MLX5DV_CONTEXT_MASK_SWP               = 2
	MLX5DV_CONTEXT_MASK_STRIDING_RQ       = 4
	MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS   = 8
	MLX5DV_CONTEXT_MASK_DYN_BFREGS        = 16
	MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE = 32
	MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS = 64
	MLX5DV_CONTEXT_MASK_DC_ODP_CAPS       = 128
	MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK    = 256
	MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS     = 512
	MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD = 1024
	MLX5DV_CONTEXT_MASK_DCI_STREAMS       = 2048
	MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH  = 4096
	MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD    = 8192
	MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM    = 16384
	MLX5DV_CONTEXT_MASK_REG_C0            = 32768
	MLX5DV_CONTEXT_MASK_OOO_RECV_WRS      = 65536
)

// enum mlx5dv_context_flags.
const (
	MLX5DV_CONTEXT_FLAGS_CQE_V1                   = 1
	MLX5DV_CONTEXT_FLAGS_MPW_ALLOWED              = 4
	MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW             = 8
	MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP            = 16
	MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD             = 32
	MLX5DV_CONTEXT_FLAGS_PACKET_BASED_CREDIT_MODE = 64
	MLX5DV_CONTEXT_FLAGS_REAL_TIME_TS             = 128
	MLX5DV_CONTEXT_FLAGS_BLUEFLAME                = 256
)

// enum mlx5dv_cq_init_attr_mask, mlx5dv_cq_init_attr_flags, mlx5dv_cqe_comp_res_format.
const (
	MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE = 1
	MLX5DV_CQ_INIT_ATTR_MASK_FLAGS          = 2
	MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE       = 4
	MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD       = 1
	MLX5DV_CQE_RES_FORMAT_HASH              = 1
	MLX5DV_CQE_RES_FORMAT_CSUM              = 2
	MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX       = 4
)

// enum mlx5dv_qp_init_attr_mask, mlx5dv_qp_create_flags, mlx5dv_qp_comp_mask, mlx5dv_srq_comp_mask.
const (
	MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS    = 1
	MLX5DV_QP_INIT_ATTR_MASK_DC                 = 2
	MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS     = 4
	MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS        = 8
	MLX5DV_QP_CREATE_TUNNEL_OFFLOADS            = 1
	MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC = 2
	MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC = 4
	MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE     = 8
	MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE       = 16
	MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE   = 32
	MLX5DV_QP_CREATE_SIG_PIPELINING             = 64
	MLX5DV_QP_CREATE_OOO_DP                     = 128
	MLX5DV_QP_MASK_UAR_MMAP_OFFSET              = 1
	MLX5DV_QP_MASK_RAW_QP_HANDLES               = 2
	MLX5DV_SRQ_MASK_SRQN                        = 1
)

// enum mlx5dv_sw_parsing_offloads.
const (
	MLX5DV_SW_PARSING      = 1
	MLX5DV_SW_PARSING_CSUM = 2
	MLX5DV_SW_PARSING_LSO  = 4
)

// enum mlx5dv_tunnel_offloads.
const (
	MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_VXLAN            = 1
	MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GRE              = 2
	MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_GENEVE           = 4
	MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_CW_MPLS_OVER_GRE = 8
	MLX5DV_RAW_PACKET_CAP_TUNNELED_OFFLOAD_CW_MPLS_OVER_UDP = 16
)

// enum mlx5dv_flow_action_cap_flags.
const (
	MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM              = 1
	MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_REQ_METADATA = 2
	MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_SPI_STEERING = 4
	MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_FULL_OFFLOAD = 8
	MLX5DV_FLOW_ACTION_FLAGS_ESP_AES_GCM_TX_IV_IS_ESN = 16
)

// enum mlx5dv_sig_prot_caps.
const (
	MLX5DV_SIG_PROT_CAP_T10DIF = 1
	MLX5DV_SIG_PROT_CAP_CRC    = 2
)

// enum mlx5dv_sig_t10dif_bg_caps.
const (
	MLX5DV_SIG_T10DIF_BG_CAP_CRC  = 1
	MLX5DV_SIG_T10DIF_BG_CAP_CSUM = 2
)

// enum mlx5dv_sig_crc_type_caps.
const (
	MLX5DV_SIG_CRC_TYPE_CAP_CRC32      = 1
	MLX5DV_SIG_CRC_TYPE_CAP_CRC32C     = 2
	MLX5DV_SIG_CRC_TYPE_CAP_CRC64_XP10 = 4
)

// enum mlx5dv_block_size_caps.
const (
	MLX5DV_BLOCK_SIZE_CAP_512  = 1
	MLX5DV_BLOCK_SIZE_CAP_520  = 2
	MLX5DV_BLOCK_SIZE_CAP_4048 = 4
	MLX5DV_BLOCK_SIZE_CAP_4096 = 8
	MLX5DV_BLOCK_SIZE_CAP_4160 = 16
)

// enum mlx5dv_crypto_engines_caps.
const (
	MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS              = 1
	MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_SINGLE_BLOCK = 2
	MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_MULTI_BLOCK  = 4
)

// enum mlx5dv_crypto_wrapped_import_method_caps.
const (
	MLX5DV_CRYPTO_WRAPPED_IMPORT_METHOD_CAP_AES_XTS = 1
)

// enum mlx5dv_crypto_caps_flags.
const (
	MLX5DV_CRYPTO_CAPS_CRYPTO                                = 1
	MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_OPERATIONAL            = 2
	MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_GOING_TO_COMMISSIONING = 4
)

// enum mlx5dv_dc_type.
const (
	MLX5DV_DCTYPE_DCT = 1
	MLX5DV_DCTYPE_DCI = 2
)

// enum mlx5dv_qp_comp_mask, the rest.
const MLX5DV_QP_MASK_RAW_QP_TIR_ADDR = 4

// enum mlx5dv_wq_init_attr_mask.
const (
	MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ = 1 << 0
)

// enum mlx5dv_sched_elem_attr_flags.
const (
	MLX5DV_SCHED_ELEM_ATTR_FLAGS_BW_SHARE   = 1 << 0
	MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW = 1 << 1
)

// Flags of mlx5dv_pp_alloc(3).
const (
	MLX5DV_PP_ALLOC_FLAGS_DEDICATED_INDEX = 1 << 0
)
