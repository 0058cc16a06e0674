package usercm

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil/cstruct"
)

// TestHeaders compares the structs with the headers of this machine. WriteCMEvent is newer than Debian 12's.
func TestHeaders(t *testing.T) {
	mirrors := []cstruct.Mirror{
		{C: "rdma_ucm_create_id", Go: CreateID{}},
		{C: "rdma_ucm_query", Go: Query{}, Renamed: map[string]string{"Arg": "option"}},
		{C: "rdma_ucm_destroy_id", Go: Query{}, Renamed: map[string]string{"Arg": "reserved"}},
		{C: "rdma_ucm_init_qp_attr", Go: Query{}, Renamed: map[string]string{"Arg": "qp_state"}},
		{C: "rdma_ucm_migrate_id", Go: Query{}, Renamed: map[string]string{"Arg": "fd"}},
		{C: "rdma_ucm_query_addr_resp", Go: AddrResp{}, Renamed: map[string]string{"DeviceIndex": "ibdev_index"}},
		{C: "rdma_ucm_query_route_resp", Go: RouteResp{}, Renamed: map[string]string{"Paths": "ib_route",
			"DeviceIndex": "ibdev_index"}},
		{C: "ib_user_path_rec", Go: PathRec{}},
		{C: "rdma_ucm_bind", Go: Bind{}},
		{C: "rdma_ucm_resolve_addr", Go: ResolveAddr{}},
		{C: "rdma_ucm_resolve_route", Go: IDArg{}, Renamed: map[string]string{"Arg": "timeout_ms"}},
		{C: "rdma_ucm_listen", Go: IDArg{}, Renamed: map[string]string{"Arg": "backlog"}},
		{C: "rdma_ucm_notify", Go: IDArg{}, Renamed: map[string]string{"Arg": "event"}},
		{C: "rdma_ucm_conn_param", Go: ConnParam{}},
		{C: "rdma_ucm_ud_param", Go: UDParam{}},
		{C: "rdma_ucm_ece", Go: ECE{}, Renamed: map[string]string{"Options": "attr_mod"}},
		{C: "rdma_ucm_connect", Go: Connect{}},
		{C: "rdma_ucm_accept", Go: Accept{}},
		{C: "rdma_ucm_reject", Go: Reject{}},
		{C: "rdma_ucm_set_option", Go: SetOption{}, Renamed: map[string]string{"Value": "optval", "Len": "optlen"}},
		{C: "rdma_ucm_join_mcast", Go: JoinMcast{}},
		{C: "rdma_ucm_get_event", Go: GetEvent{}},
		{C: "rdma_ucm_event_resp", Go: Event{}},
		{C: "ib_uverbs_qp_attr", Go: QPAttr{}},
	}
	cstruct.Headers{"rdma/rdma_user_cm.h", "rdma/ib_user_sa.h", "rdma/ib_user_verbs.h"}.Check(t, mirrors)
}
