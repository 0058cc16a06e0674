package mlx5

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/testutil/cstruct"
)

// TestHeaders compares the structs with the headers of this machine.
func TestHeaders(t *testing.T) {
	cstruct.Headers{"rdma/mlx5-abi.h", "rdma/ib_user_verbs.h"}.Check(t, []cstruct.Mirror{
		{C: "mlx5_ib_alloc_ucontext_req_v2", Go: abi.MLX5IBAllocUcontextReq{}},
		{C: "mlx5_ib_alloc_ucontext_resp", Go: abi.MLX5IBAllocUcontextResp{}},
		{C: "mlx5_ib_create_cq", Go: abi.MLX5IBCreateCQ{}},
		{C: "mlx5_ib_create_cq_resp", Go: abi.MLX5IBNumberResp{}, Renamed: map[string]string{"Number": "cqn"}},
		{C: "mlx5_ib_create_srq_resp", Go: abi.MLX5IBNumberResp{}, Renamed: map[string]string{"Number": "srqn"}},
		{C: "mlx5_ib_alloc_pd_resp", Go: abi.MLX5IBNumberResp{}, Renamed: map[string]string{"Number": "pdn"},
			Part: true},
		{C: "mlx5_ib_resize_cq", Go: abi.MLX5IBResizeCQ{}},
		{C: "mlx5_ib_create_srq", Go: abi.MLX5IBCreateSRQ{}},
		{C: "mlx5_ib_create_qp", Go: abi.MLX5IBCreateQP{}},
		{C: "mlx5_ib_create_qp_resp", Go: abi.MLX5IBCreateQPResp{}},
		{C: "mlx5_ib_create_ah_resp", Go: abi.MLX5IBCreateAHResp{}},
		{C: "mlx5_ib_query_device_resp", Go: abi.MLX5IBQueryDeviceResp{},
			Part:    true,
			Renamed: map[string]string{"MultiPktSendWQEs": "mlx5_ib_support_multi_pkt_send_wqes", "RegC0": "_"}},
		{C: "mlx5_ib_create_wq", Go: abi.MLX5IBCreateWQ{}},
		{C: "mlx5_ib_create_qp_rss", Go: abi.MLX5IBCreateQPRSS{}},
		{C: "mlx5_ib_modify_qp", Go: abi.MLX5IBModifyQP{}, Renamed: map[string]string{"Burst": "max_burst_sz"}},
		{C: "mlx5_ib_modify_qp_resp", Go: abi.MLX5IBModifyQPResp{}},
		{C: "mlx5_ib_create_flow", Go: abi.MLX5IBCreateFlow{}},
		{C: "mlx5_ib_flow_counters_data", Go: abi.MLX5IBFlowCountersData{}},
		{C: "mlx5_ib_flow_counters_desc", Go: abi.MLX5IBFlowCountersDesc{}},
		{C: "mlx5_ib_clock_info", Go: &abi.ClockPage{}},
		{C: "ib_uverbs_async_event_desc", Go: abi.UverbsAsyncEventDesc{}},
	})
}
