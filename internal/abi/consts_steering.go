package abi

// Constants of mlx5dv's steering (infiniband/mlx5dv.h, rdma-core v65).
const (
	MLX5DV_FLOW_ACTION_ESP_MASK_FLAGS                       = 1
	MLX5DV_FLOW_MATCHER_MASK_FT_TYPE                        = 1
	MLX5DV_FLOW_MATCHER_MASK_IB_PORT                        = 2
	MLX5DV_FLOW_ACTION_DEST_IBV_QP                          = 0
	MLX5DV_FLOW_ACTION_DROP                                 = 1
	MLX5DV_FLOW_ACTION_IBV_FLOW_ACTION                      = 3
	MLX5DV_FLOW_ACTION_TAG                                  = 4
	MLX5DV_FLOW_ACTION_DEST_DEVX                            = 5
	MLX5DV_FLOW_ACTION_COUNTERS_DEVX                        = 6
	MLX5DV_FLOW_ACTION_DEFAULT_MISS                         = 7
	MLX5DV_FLOW_ACTION_COUNTERS_DEVX_WITH_OFFSET            = 8
	MLX5DV_DR_DOMAIN_TYPE_NIC_RX                            = 0
	MLX5DV_DR_DOMAIN_TYPE_NIC_TX                            = 1
	MLX5DV_DR_DOMAIN_TYPE_FDB                               = 2
	MLX5DV_DR_DOMAIN_SYNC_FLAGS_SW                          = 1
	MLX5DV_DR_DOMAIN_SYNC_FLAGS_HW                          = 2
	MLX5DV_DR_DOMAIN_SYNC_FLAGS_MEM                         = 4
	MLX5DV_DR_MATCHER_LAYOUT_RESIZABLE                      = 1
	MLX5DV_DR_MATCHER_LAYOUT_NUM_RULE                       = 2
	MLX5DV_DR_ACTION_FLAGS_ROOT_LEVEL                       = 1
	MLX5DV_DR_ACTION_DEST                                   = 0
	MLX5DV_DR_ACTION_DEST_REFORMAT                          = 1
	MLX5DV_DR_ACTION_FLAGS_ASO_FIRST_HIT_SET                = 1
	MLX5DV_DR_ACTION_FLAGS_ASO_FLOW_METER_RED               = 1
	MLX5DV_DR_ACTION_FLAGS_ASO_FLOW_METER_YELLOW            = 2
	MLX5DV_DR_ACTION_FLAGS_ASO_FLOW_METER_GREEN             = 4
	MLX5DV_DR_ACTION_FLAGS_ASO_FLOW_METER_UNDEFINED         = 8
	MLX5DV_DR_ACTION_FLAGS_ASO_CT_DIRECTION_INITIATOR       = 1
	MLX5DV_DR_ACTION_FLAGS_ASO_CT_DIRECTION_RESPONDER       = 2
	MLX5DV_FLOW_ACTION_FLAGS_REQUIRE_METADATA               = 1
	MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL = 1
	MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L3_TUNNEL = 3
	MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2 = 0
	MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L3_TUNNEL_TO_L2 = 2
	MLX5DV_FLOW_TABLE_TYPE_FDB                              = 2
	MLX5DV_FLOW_TABLE_TYPE_NIC_RX                           = 0
	MLX5DV_FLOW_TABLE_TYPE_NIC_TX                           = 1
	MLX5DV_FLOW_TABLE_TYPE_RDMA_RX                          = 3
	MLX5DV_FLOW_TABLE_TYPE_RDMA_TRANSPORT_RX                = 5
	MLX5DV_FLOW_TABLE_TYPE_RDMA_TRANSPORT_TX                = 6
	MLX5DV_FLOW_TABLE_TYPE_RDMA_TX                          = 4
)
