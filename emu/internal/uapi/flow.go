//go:build linux

package uapi

// CreateFlow makes a steering rule; its specs follow, each with its own size.
type CreateFlow struct {
	CompMask, QPHandle uint32
	Type               uint32  `c:"flow_attr."`
	Size, Priority     uint16  `c:"flow_attr."`
	NumOfSpecs         uint8   `c:"flow_attr."`
	Reserved           [2]byte `c:"flow_attr."`
	Port               uint8   `c:"flow_attr."`
	Flags              uint32  `c:"flow_attr."`
}

// CreateFlowResp answers create_flow.
type CreateFlowResp struct{ CompMask, FlowHandle uint32 }

// DestroyFlow removes a steering rule.
type DestroyFlow struct{ CompMask, FlowHandle uint32 }

// FlowSpec leads each spec of a rule. C: struct ib_uverbs_flow_spec_hdr.
type FlowSpec struct {
	Type           uint32
	Size, Reserved uint16
}

// Mlx5CreateFlow is the driver's part of create_flow: how many of Mlx5FlowCounters follow it.
type Mlx5CreateFlow struct{ NcountersData, Reserved uint32 }

// Mlx5FlowCounters says where the points of a counters object are.
type Mlx5FlowCounters struct {
	CountersData        uint64
	Ncounters, Reserved uint32
}

// Mlx5CounterPoint is one of them.
type Mlx5CounterPoint struct{ Description, Index uint32 }
