package uverbs

import (
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil/cstruct"
)

var headers = cstruct.Headers{"rdma/ib_user_verbs.h", "rdma/ib_user_ioctl_verbs.h", "rdma/rdma_user_ioctl_cmds.h"}

// TestHeaders compares the structs that have names with the headers of this machine.
func TestHeaders(t *testing.T) {
	headers.Check(t, []cstruct.Mirror{
		{C: "ib_uverbs_ioctl_hdr", Go: header{}},
		{C: "ib_uverbs_attr", Go: Attr{}},
		{C: "ib_uverbs_cmd_hdr", Go: writeHeader{}},
		{C: "ib_uverbs_ex_cmd_hdr", Go: extendedHeader{},
			Renamed: map[string]string{"driverInWords": "provider_in_words",
				"driverOutWords": "provider_out_words"}},
		{C: "ib_uverbs_get_context", Go: getContextReq{}},
		{C: "ib_uverbs_get_context_resp", Go: getContextResp{}},
		{C: "ib_uverbs_create_comp_channel", Go: getContextReq{}},
		{C: "ib_uverbs_create_comp_channel_resp", Go: compChannelResp{}},
		{C: "ib_uverbs_query_device_resp", Go: DeviceAttr{}},
		{C: "ib_uverbs_ex_query_device_resp", Go: DeviceAttrEx{},
			Renamed: map[string]string{"DeviceAttr": "base", "ODPCaps": "general_caps", "RSSQPTs": "supported_qpts",
				"RSSTables": "max_rwq_indirection_tables", "RSSTableSize": "max_rwq_indirection_table_size",
				"TMFlags": "flags", "TMMaxOps": "max_ops", "TMMaxSGE": "max_sge",
				"MaxCQModerationUsec": "max_cq_moderation_period"}},
		{C: "ib_uverbs_query_port_resp_ex", Go: PortAttr{},
			Renamed: map[string]string{"MaxMsgSize": "max_msg_sz", "GIDTableLen": "gid_tbl_len",
				"PKeyTableLen": "pkey_tbl_len", "ActiveSpeedEx": "_"}},
		{C: "ib_uverbs_gid_entry", Go: GIDEntry{}, Renamed: map[string]string{"NdevIfindex": "netdev_ifindex"}},
		{C: "ib_uverbs_global_route", Go: GlobalRoute{}},
		{C: "ib_uverbs_ah_attr", Go: AHAttr{}},
		{C: "ib_uverbs_reg_mr", Go: RegMR{}},
		{C: "ib_uverbs_reg_mr_resp", Go: MR{}},
		{C: "ib_uverbs_rereg_mr", Go: ReregMR{}},
		{C: "ib_uverbs_sge", Go: SGE{}},
		{C: "ib_uverbs_create_cq", Go: CreateCQ{}},
		{C: "ib_uverbs_create_cq_resp", Go: CQ{}},
		{C: "ib_uverbs_create_srq", Go: CreateSRQ{}},
		{C: "ib_uverbs_create_srq_resp", Go: SRQ{}, Renamed: map[string]string{"Num": "srqn"}},
		{C: "ib_uverbs_qp_cap", Go: QPCap{}},
		{C: "ib_uverbs_create_qp", Go: CreateQP{}},
		{C: "ib_uverbs_create_qp_resp", Go: QP{}, Renamed: map[string]string{"Num": "qpn"}},
		{C: "ib_uverbs_ex_create_qp", Go: createQPExReq{}, Renamed: map[string]string{"table": "rwq_ind_tbl_handle"}},
		{C: "ib_uverbs_qp_dest", Go: QPDest{}},
		{C: "ib_uverbs_modify_qp", Go: ModifyQP{}},
		{C: "ib_uverbs_query_qp_resp", Go: QPAttr{}},
		{C: "ib_uverbs_destroy_cq", Go: destroy{}},
		{C: "ib_uverbs_destroy_qp", Go: destroy{}},
		{C: "ib_uverbs_destroy_srq", Go: destroy{}},
		{C: "ib_uverbs_ex_create_wq", Go: CreateWQ{}},
		{C: "ib_uverbs_ex_create_wq_resp", Go: WQ{}, Renamed: map[string]string{"Num": "wqn"}},
		{C: "ib_uverbs_ex_modify_wq", Go: ModifyWQ{}},
		{C: "ib_uverbs_flow_attr", Go: FlowAttr{}},
	})
}

// TestLengths compares the lengths of what INVOKE_WRITE carries with the headers: with struct ib_uverbs_NAME and
// struct ib_uverbs_NAME_resp, but for these names.
func TestLengths(t *testing.T) {
	odd := map[string][2]string{
		"query_device_ex": {"ex_query_device", "ex_query_device_resp"},
		"create_xsrq":     {"create_xsrq", "create_srq_resp"},
		"create_qp_ex":    {"ex_create_qp", "ex_create_qp_resp"}, "open_qp": {"open_qp", "create_qp_resp"},
		"modify_qp_ex": {"ex_modify_qp", "ex_modify_qp_resp"}, "modify_cq": {"ex_modify_cq", ""},
		"create_ah": {"create_ah", "create_ah_resp"}, "create_wq": {"ex_create_wq", "ex_create_wq_resp"},
		"modify_wq": {"ex_modify_wq", ""}, "destroy_wq": {"ex_destroy_wq", "ex_destroy_wq_resp"},
		"create_rwq_ind_tbl":  {"ex_create_rwq_ind_table", "ex_create_rwq_ind_table_resp"},
		"destroy_rwq_ind_tbl": {"ex_destroy_rwq_ind_table", ""},
	}
	silent := []string{"dealloc_pd", "dereg_mr", "destroy_ah", "dealloc_mw", "close_xrcd", "destroy_flow", "modify_srq",
		"modify_qp", "attach_mcast", "detach_mcast"}
	// The flow's rules, and the numbers of two WQs, follow the struct.
	more := map[string]int{"create_flow": 40, "create_rwq_ind_tbl": 8}
	for _, cc := range cstruct.Compilers {
		t.Run(cc, func(t *testing.T) {
			structs := headers.Structs(t, cc, nil)
			size := func(name string) int64 {
				if name == "" {
					return 0
				}
				s := structs["ib_uverbs_"+name]
				if s == nil {
					t.Fatalf("no struct ib_uverbs_%s", name)
				}
				return s.ByteSize
			}
			for _, c := range all {
				if commandsByName(t)[c.name].number == noNumber {
					continue
				}
				names, ok := odd[c.name]
				if !ok {
					names = [2]string{c.name, c.name + "_resp"}
				}
				if slices.Contains(silent, c.name) {
					names[1] = ""
				}
				k, forms := &fakeKernel{fill: 1}, new(Forms)
				forms.From(ByInvoke)
				if err := c.do(k.file(forms)); !plausible(err) {
					t.Errorf("%s: %v", c.name, err)
				}
				in, out := size(names[0])+int64(more[c.name]), size(names[1])
				if int64(len(k.in)) != in || int64(k.out) != out {
					t.Errorf("%s has %d and %d bytes, want %d and %d", c.name, len(k.in), k.out, in, out)
				}
			}
		})
	}
}
