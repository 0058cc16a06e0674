package mlx5dv

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// CreateESPAction is ibv's CreateESPAction for an adapter that takes keys by metadata before the
// frame: such a device has FlowESPAESGCMReqMetadata.
//
// Experimental: no device has run this. See docs/stability.md.
//
// C: mlx5dv_create_flow_action_esp(3) with MLX5_IB_UAPI_FLOW_ACTION_FLAGS_REQUIRE_METADATA.
func CreateESPAction(dev *ibv.Device, a *ibv.ESPAction) (*ibv.FlowAction, error) {
	const op = "mlx5dv create esp action"
	lib, _, err := begin(dev, op).reach()
	if err != nil {
		return nil, err
	}
	return verbs.NewESPAction(dev, op, a, func(handle uintptr, e *abi.ESP) (uintptr, error) {
		attr := &abi.MLX5DVFlowActionESP{CompMask: abi.MLX5DV_FLOW_ACTION_ESP_MASK_FLAGS,
			ActionFlags: abi.MLX5DV_FLOW_ACTION_FLAGS_REQUIRE_METADATA}
		return lib.CreateFlowActionESP(handle, e, attr)
	})
}
