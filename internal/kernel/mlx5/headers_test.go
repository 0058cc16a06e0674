package mlx5

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
	"github.com/pureverbs/pureverbs/internal/testutil/cstruct"
)

// TestHeaders compares the structs with the headers of this machine.
func TestHeaders(t *testing.T) {
	cstruct.Headers{"rdma/mlx5-abi.h", "rdma/ib_user_verbs.h"}.Check(t, []cstruct.Mirror{
		{C: "mlx5_ib_alloc_ucontext_req_v2", Go: getContext{}},
		{C: "mlx5_ib_alloc_ucontext_resp", Go: contextInfo{},
			Renamed: map[string]string{"qpTableSize": "qp_tab_size", "totalBFRegs": "tot_bfregs",
				"maxSendBlocks": "max_send_wqebb", "supportsUHW": "cmds_supp_uhw"}},
		{C: "mlx5_ib_create_cq", Go: createCQ{}, Renamed: map[string]string{"compressed": "cqe_comp_en"}},
		{C: "mlx5_ib_create_cq_resp", Go: numberResp{}, Renamed: map[string]string{"number": "cqn"}},
		{C: "mlx5_ib_create_srq_resp", Go: numberResp{}, Renamed: map[string]string{"number": "srqn"}},
		{C: "mlx5_ib_alloc_pd_resp", Go: numberResp{}, Renamed: map[string]string{"number": "pdn"}, Part: true},
		{C: "mlx5_ib_resize_cq", Go: uverbs.MLX5Ring{}, Renamed: map[string]string{"EntrySize": "cqe_size"}},
		{C: "mlx5_ib_create_srq", Go: createSRQ{}},
		{C: "mlx5_ib_create_qp", Go: createQP{}, Renamed: map[string]string{"sqBlocks": "sq_wqe_count"}},
		{C: "mlx5_ib_create_qp_resp", Go: createQPResp{}},
		{C: "mlx5_ib_create_ah_resp", Go: createAHResp{}},
		{C: "mlx5_ib_query_device_resp", Go: deviceResp{},
			Renamed: map[string]string{"tsoQPTs": "supported_qpts", "compressMax": "max_num",
				"compressForms": "supported_format", "minRate": "qp_rate_limit_min", "maxRate": "qp_rate_limit_max",
				"rateQPTs": "supported_qpts", "rateFlags": "cap_flags",
				"multiPacketWQEs": "mlx5_ib_support_multi_pkt_send_wqes", "regC0": "_"}, Part: true},
		{C: "mlx5_ib_create_wq", Go: createWQ{},
			Renamed: map[string]string{"wqes": "rq_wqe_count", "striding": "elements"}},
		{C: "mlx5_ib_create_qp_rss", Go: createRSS{}},
		{C: "mlx5_ib_modify_qp", Go: modifyQP{}, Renamed: map[string]string{"typicalPacket": "typical_pkt_sz"}},
		{C: "mlx5_ib_modify_qp_resp", Go: modifyQPResp{}},
		{C: "mlx5_ib_clock_info", Go: &abi.ClockPage{}},
		{C: "ib_uverbs_async_event_desc", Go: asyncDesc{}},
	})
}
