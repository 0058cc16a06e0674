package libmlx5

import (
	"runtime"
	"slices"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// match returns a struct mlx5dv_flow_match_parameters: the size of b, and b, whose length is a multiple of 8.
func match(b []byte) []uint64 {
	p := make([]uint64, 1+len(b)/8)
	p[0] = uint64(len(b))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&p[0])), 8+len(b))[8:], b)
	return p
}

// first returns the address of the first element, 0 if there is none.
func first[T any](s []T) uintptr { return cmem.Heap(unsafe.Pointer(unsafe.SliceData(s))) }

// struct mlx5dv_flow_matcher *mlx5dv_create_flow_matcher(struct ibv_context *context,
// struct mlx5dv_flow_matcher_attr *matcher_attr);
// Absent before v20.
func (l Lib) CreateFlowMatcher(ctx uintptr, attr *abi.MLX5DVFlowMatcherAttr, mask []byte) (uintptr, error) {
	m := match(mask)
	attr.MatchMask = first(m)
	defer runtime.KeepAlive(m)
	return l.lib.Ptr("mlx5dv_create_flow_matcher", ctx, uintptr(unsafe.Pointer(attr)))
}

// attrLength is __mlx5dv_create_flow, which takes the size of an action.
const attrLength = "__mlx5dv_create_flow"

// wideActions are the releases whose mlx5dv_create_flow takes the longer actions, and which have no attrLength.
var wideActions = []string{"60.0", "60.1", "61.0", "62.0"}

// struct ibv_flow *mlx5dv_create_flow(struct mlx5dv_flow_matcher *matcher,
// struct mlx5dv_flow_match_parameters *match_value, size_t num_actions, struct mlx5dv_flow_action_attr actions_attr[]);
// Absent before v20.
func (l Lib) CreateFlow(matcher uintptr, value []byte, actions []abi.MLX5DVFlowActionAttr) (uintptr, error) {
	m := match(value)
	if l.lib.Has(attrLength) {
		return l.lib.Ptr(attrLength, matcher, uintptr(unsafe.Pointer(&m[0])), uintptr(len(actions)),
			uintptr(unsafe.Pointer(unsafe.SliceData(actions))), unsafe.Sizeof(abi.MLX5DVFlowActionAttr{}))
	}
	list := flatActions(actions, slices.Contains(wideActions, l.lib.Version()))
	return l.lib.Ptr("mlx5dv_create_flow", matcher, uintptr(unsafe.Pointer(&m[0])), uintptr(len(actions)),
		uintptr(unsafe.Pointer(unsafe.SliceData(list))))
}

// flatActions returns an array of struct mlx5dv_flow_action_attr, of three words each if wide, and of two if not.
func flatActions(actions []abi.MLX5DVFlowActionAttr, wide bool) (list []uint64) {
	for i := range actions {
		words := unsafe.Slice((*uint64)(unsafe.Pointer(&actions[i])), 3)
		if !wide {
			words = words[:2]
		}
		list = append(list, words...)
	}
	return list
}

// TakesOffsets reports whether a counter of a flow may have an offset.
func (l Lib) TakesOffsets() bool {
	return l.lib.Has(attrLength) || slices.Contains(wideActions, l.lib.Version())
}

// struct ibv_flow_action *mlx5dv_create_flow_action_packet_reformat(struct ibv_context *ctx, size_t data_sz,
// void *data, enum mlx5dv_flow_action_packet_reformat_type reformat_type, enum mlx5dv_flow_table_type ft_type);
// Absent before v21.
func (l Lib) CreateFlowActionPacketReformat(ctx uintptr, data []byte, reformat, table uint32) (uintptr, error) {
	if len(data) == 0 {
		data = nil // libmlx5 wants NULL
	}
	return l.lib.Ptr("mlx5dv_create_flow_action_packet_reformat", ctx, uintptr(len(data)),
		uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(reformat), uintptr(table))
}

// struct ibv_flow_action *mlx5dv_create_flow_action_esp(struct ibv_context *ctx, struct ibv_flow_action_esp_attr *esp,
// struct mlx5dv_flow_action_esp *mlx5_attr);
// Absent before v18.
func (l Lib) CreateFlowActionESP(ctx uintptr, e *abi.ESP, attr *abi.MLX5DVFlowActionESP) (uintptr, error) {
	return l.lib.Ptr("mlx5dv_create_flow_action_esp", ctx, uintptr(unsafe.Pointer(e.C())),
		uintptr(unsafe.Pointer(attr)))
}
