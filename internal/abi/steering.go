package abi

import "structs"

// MLX5DVFlowMatcherAttr is struct mlx5dv_flow_matcher_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVFlowMatcherAttr struct {
	_                   structs.HostLayout
	Type                uint32
	Flags               uint32
	Priority            uint16
	MatchCriteriaEnable uint8
	_                   [5]byte
	MatchMask           uintptr
	CompMask            uint64
	FTType              uint32
	IBPort              uint32
}

// MLX5DVFlowActionAttr is struct mlx5dv_flow_action_attr (infiniband/mlx5dv.h, rdma-core v65). Up to v59, and in
// mlx5dv_create_flow of later releases, it ends before Offset.
type MLX5DVFlowActionAttr struct {
	_      structs.HostLayout
	Type   uint32
	_      [4]byte
	Value  uint64 // a pointer, or the tag
	Offset uint32
	_      [4]byte
}

// MLX5DVFlowActionESP is struct mlx5dv_flow_action_esp (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVFlowActionESP struct {
	_           structs.HostLayout
	CompMask    uint64
	ActionFlags uint32
	_           [4]byte
}

// MLX5DVSteeringAnchorAttr is struct mlx5dv_steering_anchor_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVSteeringAnchorAttr struct {
	_        structs.HostLayout
	FTType   uint32
	Priority uint16
	_        [2]byte
	CompMask uint64
}

// MLX5DVDRMatcherLayout is struct mlx5dv_dr_matcher_layout (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVDRMatcherLayout struct {
	_                 structs.HostLayout
	Flags             uint32
	LogNumOfRulesHint uint32
}

// MLX5DVDRFlowMeterAttr is struct mlx5dv_dr_flow_meter_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVDRFlowMeterAttr struct {
	_                    structs.HostLayout
	NextTable            uintptr
	Active               uint8
	RegCIndex            uint8
	_                    [6]byte
	FlowMeterParameterSz uint64
	FlowMeterParameter   uintptr
}

// MLX5DVDRFlowSamplerAttr is struct mlx5dv_dr_flow_sampler_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVDRFlowSamplerAttr struct {
	_                structs.HostLayout
	SampleRatio      uint32
	_                [4]byte
	DefaultNextTable uintptr
	NumSampleActions uint32
	_                [4]byte
	SampleActions    uintptr
	Action           uint64 // network order
}

// MLX5DVDRActionDestAttr is struct mlx5dv_dr_action_dest_attr (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVDRActionDestAttr struct {
	_    structs.HostLayout
	Type uint32
	_    [4]byte
	Dest uintptr // an action, or an MLX5DVDRActionDestReformat
}

// MLX5DVDRActionDestReformat is struct mlx5dv_dr_action_dest_reformat (infiniband/mlx5dv.h, rdma-core v65).
type MLX5DVDRActionDestReformat struct {
	_        structs.HostLayout
	Reformat uintptr
	Dest     uintptr
}
