package usercm

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil/cstruct"
)

// TestHeaders compares the structs with the headers of this machine. WriteCMEvent is newer than Debian 12's.
func TestHeaders(t *testing.T) {
	mirrors := []cstruct.Mirror{
		{C: "rdma_ucm_create_id", Go: abi.UCMCreateID{}},
		{C: "rdma_ucm_query", Go: abi.UCMQuery{}, Renamed: map[string]string{"Arg": "option"}},
		{C: "rdma_ucm_destroy_id", Go: abi.UCMQuery{}, Renamed: map[string]string{"Arg": "reserved"}},
		{C: "rdma_ucm_init_qp_attr", Go: abi.UCMQuery{}, Renamed: map[string]string{"Arg": "qp_state"}},
		{C: "rdma_ucm_migrate_id", Go: abi.UCMQuery{}, Renamed: map[string]string{"Arg": "fd"}},
		{C: "rdma_ucm_query_addr_resp", Go: abi.UCMQueryAddrResp{},
			Renamed: map[string]string{"DeviceIndex": "ibdev_index"}},
		{C: "rdma_ucm_query_route_resp", Go: abi.UCMQueryRouteResp{},
			Renamed: map[string]string{"DeviceIndex": "ibdev_index"}},
		{C: "ib_user_path_rec", Go: abi.UserPathRec{}},
		{C: "rdma_ucm_bind", Go: abi.UCMBind{}},
		{C: "rdma_ucm_resolve_addr", Go: abi.UCMResolveAddr{}},
		{C: "rdma_ucm_resolve_route", Go: abi.UCMIDArg{}, Renamed: map[string]string{"Arg": "timeout_ms"}},
		{C: "rdma_ucm_listen", Go: abi.UCMIDArg{}, Renamed: map[string]string{"Arg": "backlog"}},
		{C: "rdma_ucm_notify", Go: abi.UCMIDArg{}, Renamed: map[string]string{"Arg": "event"}},
		{C: "rdma_ucm_conn_param", Go: abi.UCMConnParam{}},
		{C: "rdma_ucm_ud_param", Go: abi.UCMUDParam{}},
		{C: "rdma_ucm_ece", Go: abi.UCMECE{}, Renamed: map[string]string{"Options": "attr_mod"}},
		{C: "rdma_ucm_connect", Go: abi.UCMConnect{}},
		{C: "rdma_ucm_accept", Go: abi.UCMAccept{}},
		{C: "rdma_ucm_reject", Go: abi.UCMReject{}},
		{C: "rdma_ucm_set_option", Go: abi.UCMSetOption{}},
		{C: "rdma_ucm_join_mcast", Go: abi.UCMJoinMcast{}},
		{C: "rdma_ucm_get_event", Go: abi.UCMGetEvent{}},
		{C: "rdma_ucm_event_resp", Go: abi.UCMEventResp{}},
		{C: "ib_uverbs_qp_attr", Go: abi.UverbsQPAttr{}},
	}
	cstruct.Headers{"rdma/rdma_user_cm.h", "rdma/ib_user_sa.h", "rdma/ib_user_verbs.h"}.Check(t, mirrors)
}
