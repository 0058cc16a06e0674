package uverbs

import (
	"github.com/pureverbs/pureverbs/internal/abi"
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
		{C: "ib_uverbs_cmd_hdr", Go: abi.UverbsCmdHdr{}},
		{C: "ib_uverbs_ex_cmd_hdr", Go: abi.UverbsExCmdHdr{}},
		{C: "ib_uverbs_get_context", Go: abi.UverbsGetContext{}},
		{C: "ib_uverbs_get_context_resp", Go: abi.UverbsGetContextResp{}},
		{C: "ib_uverbs_create_comp_channel", Go: abi.UverbsGetContext{}},
		{C: "ib_uverbs_create_comp_channel_resp", Go: abi.UverbsCreateCompChannelResp{}},
		{C: "ib_uverbs_query_device_resp", Go: abi.UverbsQueryDeviceResp{}},
		{C: "ib_uverbs_ex_query_device_resp", Go: abi.UverbsExQueryDeviceResp{}},
		{C: "ib_uverbs_query_port_resp_ex", Go: abi.UverbsQueryPortRespEx{},
			Renamed: map[string]string{"ActiveSpeedEx": "_"}},
		{C: "ib_uverbs_gid_entry", Go: abi.GIDEntry{}},
		{C: "ib_uverbs_global_route", Go: abi.GlobalRoute{}},
		{C: "ib_uverbs_ah_attr", Go: abi.AHAttr{}},
		{C: "ib_uverbs_reg_mr", Go: abi.UverbsRegMR{}},
		{C: "ib_uverbs_reg_mr_resp", Go: abi.UverbsMR{}},
		{C: "ib_uverbs_rereg_mr", Go: abi.UverbsReregMR{}},
		{C: "ib_uverbs_sge", Go: abi.SGE{}},
		{C: "ib_uverbs_create_cq", Go: abi.UverbsCreateCQ{}},
		{C: "ib_uverbs_create_cq_resp", Go: abi.UverbsCQ{}},
		{C: "ib_uverbs_create_srq", Go: abi.UverbsCreateSRQ{}},
		{C: "ib_uverbs_create_srq_resp", Go: abi.UverbsSRQ{}},
		{C: "ib_uverbs_qp_cap", Go: abi.QPCap{}},
		{C: "ib_uverbs_create_qp", Go: abi.UverbsCreateQP{}},
		{C: "ib_uverbs_create_qp_resp", Go: abi.UverbsQP{}},
		{C: "ib_uverbs_ex_create_qp", Go: abi.UverbsExCreateQP{}},
		{C: "ib_uverbs_qp_dest", Go: abi.UverbsQPDest{}},
		{C: "ib_uverbs_modify_qp", Go: abi.UverbsModifyQP{}},
		{C: "ib_uverbs_query_qp_resp", Go: abi.UverbsQueryQPResp{}},
		{C: "ib_uverbs_destroy_cq", Go: abi.UverbsDestroy{}},
		{C: "ib_uverbs_destroy_qp", Go: abi.UverbsDestroy{}},
		{C: "ib_uverbs_destroy_srq", Go: abi.UverbsDestroy{}},
		{C: "ib_uverbs_ex_create_wq", Go: abi.UverbsExCreateWQ{}},
		{C: "ib_uverbs_ex_create_wq_resp", Go: abi.UverbsWQ{}},
		{C: "ib_uverbs_ex_modify_wq", Go: abi.UverbsExModifyWQ{}},
		{C: "ib_uverbs_flow_attr", Go: abi.UverbsFlowAttr{}},
		{C: "ib_uverbs_create_flow", Go: abi.UverbsCreateFlow{}},
		{C: "ib_uverbs_flow_spec_hdr", Go: abi.UverbsFlowSpecHdr{}},
		{C: "ib_uverbs_query_port", Go: abi.UverbsQueryPort{}},
		{C: "ib_uverbs_alloc_mw", Go: abi.UverbsAllocMW{}},
		{C: "ib_uverbs_create_ah", Go: abi.UverbsCreateAH{}},
		{C: "ib_uverbs_ex_create_cq", Go: abi.UverbsExCreateCQ{}},
		{C: "ib_uverbs_ex_create_cq_resp", Go: abi.UverbsExCreateCQResp{}},
		{C: "ib_uverbs_resize_cq", Go: abi.UverbsResizeCQ{}},
		{C: "ib_uverbs_ex_modify_cq", Go: abi.UverbsExModifyCQ{}},
		{C: "ib_uverbs_create_xsrq", Go: abi.UverbsCreateXSRQ{}},
		{C: "ib_uverbs_ex_create_qp_resp", Go: abi.UverbsExCreateQPResp{}},
		{C: "ib_uverbs_open_qp", Go: abi.UverbsOpenQP{}},
		{C: "ib_uverbs_ex_modify_qp", Go: abi.UverbsExModifyQP{}},
		{C: "ib_uverbs_query_qp", Go: abi.UverbsQueryQP{}},
		{C: "ib_uverbs_attach_mcast", Go: abi.UverbsAttachMcast{}},
		{C: "ib_uverbs_open_xrcd", Go: abi.UverbsOpenXRCD{}},
		{C: "ib_uverbs_post_send", Go: abi.UverbsPostSend{}},
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
