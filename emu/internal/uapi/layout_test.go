//go:build linux

package uapi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"
)

// sizes are those in Cmds, by the expressions that the kernel derives them from.
var sizes = map[uint32][2]string{
	0:       {"sizeof(struct ib_uverbs_get_context)", "sizeof(struct ib_uverbs_get_context_resp)"},
	1:       {"sizeof(struct ib_uverbs_query_device)", "sizeof(struct ib_uverbs_query_device_resp)"},
	2:       {"sizeof(struct ib_uverbs_query_port)", "sizeof(struct ib_uverbs_query_port_resp)"},
	3:       {"sizeof(struct ib_uverbs_alloc_pd)", "sizeof(struct ib_uverbs_alloc_pd_resp)"},
	4:       {"sizeof(struct ib_uverbs_dealloc_pd)", "0"},
	5:       {"sizeof(struct ib_uverbs_create_ah)", "sizeof(struct ib_uverbs_create_ah_resp)"},
	8:       {"sizeof(struct ib_uverbs_destroy_ah)", "0"},
	9:       {"sizeof(struct ib_uverbs_reg_mr)", "sizeof(struct ib_uverbs_reg_mr_resp)"},
	11:      {"sizeof(struct ib_uverbs_rereg_mr)", "sizeof(struct ib_uverbs_rereg_mr_resp)"},
	13:      {"sizeof(struct ib_uverbs_dereg_mr)", "0"},
	14:      {"sizeof(struct ib_uverbs_alloc_mw)", "sizeof(struct ib_uverbs_alloc_mw_resp)"},
	16:      {"sizeof(struct ib_uverbs_dealloc_mw)", "0"},
	17:      {"sizeof(struct ib_uverbs_create_comp_channel)", "sizeof(struct ib_uverbs_create_comp_channel_resp)"},
	18:      {"sizeof(struct ib_uverbs_create_cq)", "sizeof(struct ib_uverbs_create_cq_resp)"},
	19:      {"sizeof(struct ib_uverbs_resize_cq)", "sizeof(struct ib_uverbs_resize_cq_resp)"},
	20:      {"sizeof(struct ib_uverbs_destroy_cq)", "sizeof(struct ib_uverbs_destroy_cq_resp)"},
	24:      {"sizeof(struct ib_uverbs_create_qp)", "sizeof(struct ib_uverbs_create_qp_resp)"},
	25:      {"sizeof(struct ib_uverbs_query_qp)", "sizeof(struct ib_uverbs_query_qp_resp)"},
	26:      {"sizeof(struct ib_uverbs_modify_qp)", "0"},
	27:      {"sizeof(struct ib_uverbs_destroy_qp)", "sizeof(struct ib_uverbs_destroy_qp_resp)"},
	30:      {"sizeof(struct ib_uverbs_attach_mcast)", "0"},
	31:      {"sizeof(struct ib_uverbs_detach_mcast)", "0"},
	32:      {"sizeof(struct ib_uverbs_create_srq)", "sizeof(struct ib_uverbs_create_srq_resp)"},
	33:      {"sizeof(struct ib_uverbs_modify_srq)", "0"},
	34:      {"sizeof(struct ib_uverbs_query_srq)", "sizeof(struct ib_uverbs_query_srq_resp)"},
	35:      {"sizeof(struct ib_uverbs_destroy_srq)", "sizeof(struct ib_uverbs_destroy_srq_resp)"},
	37:      {"sizeof(struct ib_uverbs_open_xrcd)", "sizeof(struct ib_uverbs_open_xrcd_resp)"},
	38:      {"sizeof(struct ib_uverbs_close_xrcd)", "0"},
	39:      {"sizeof(struct ib_uverbs_create_xsrq)", "sizeof(struct ib_uverbs_create_srq_resp)"},
	40:      {"sizeof(struct ib_uverbs_open_qp)", "sizeof(struct ib_uverbs_create_qp_resp)"},
	ex | 1:  {"sizeof(struct ib_uverbs_ex_query_device)", "offsetof(struct ib_uverbs_ex_query_device_resp, odp_caps)"},
	ex | 18: {"sizeof(struct ib_uverbs_ex_create_cq)", "sizeof(struct ib_uverbs_ex_create_cq_resp)"},
	ex | 24: {"offsetof(struct ib_uverbs_ex_create_qp, create_flags)", "sizeof(struct ib_uverbs_ex_create_qp_resp)"},
	ex | 26: {"offsetof(struct ib_uverbs_ex_modify_qp, rate_limit)", "sizeof(struct ib_uverbs_ex_modify_qp_resp)"},
	ex | 50: {"sizeof(struct ib_uverbs_create_flow)", "sizeof(struct ib_uverbs_create_flow_resp)"},
	ex | 51: {"sizeof(struct ib_uverbs_destroy_flow)", "0"},
	ex | 52: {"offsetof(struct ib_uverbs_ex_create_wq, create_flags)", "sizeof(struct ib_uverbs_ex_create_wq_resp)"},
	ex | 53: {"offsetof(struct ib_uverbs_ex_modify_wq, flags)", "0"},
	ex | 54: {"sizeof(struct ib_uverbs_ex_destroy_wq)", "sizeof(struct ib_uverbs_ex_destroy_wq_resp)"},
	ex | 55: {"sizeof(struct ib_uverbs_ex_create_rwq_ind_table)",
		"sizeof(struct ib_uverbs_ex_create_rwq_ind_table_resp)"},
	ex | 56: {"sizeof(struct ib_uverbs_ex_destroy_rwq_ind_table)", "0"},
	ex | 57: {"sizeof(struct ib_uverbs_ex_modify_cq)", "0"},
}

func snake(s string) string {
	var b strings.Builder
	r := []rune(s)
	for i, c := range r {
		if unicode.IsUpper(c) && i > 0 && (!unicode.IsUpper(r[i-1]) || i+1 < len(r) && unicode.IsLower(r[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

func offsets(b *strings.Builder, c, prefix string, t reflect.Type, base uintptr) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, ok := f.Tag.Lookup("c")
		switch {
		case f.Name == "_", name == "-":
			continue
		case !ok:
			name = snake(f.Name)
		case strings.HasSuffix(name, ".") || strings.HasSuffix(name, "_"):
			name += snake(f.Name)
		}
		fmt.Fprintf(b, "CHECK(offsetof(struct %s, %s%s), %d)\n", c, prefix, name, base+f.Offset)
		if f.Type.Kind() == reflect.Struct {
			offsets(b, c, prefix+name+".", f.Type, base+f.Offset)
		}
	}
}

const prologue = `#include <stddef.h>
#include <stdio.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#define CHECK(c, go) _Static_assert((c) == (go), #c " is not " #go);
`

// program asserts every size, offset and number of this package at compile time.
func program() string {
	var b strings.Builder
	b.WriteString(prologue)
	for c, v := range mirrors {
		t := reflect.TypeOf(v)
		c, longer := strings.CutSuffix(c, "+")
		if !longer {
			fmt.Fprintf(&b, "CHECK(sizeof(struct %s), %d)\n", c, t.Size())
		}
		offsets(&b, c, "", t, 0)
	}
	// Requests that are read as the head of another behind a response pointer.
	for _, f := range []string{"cq user_handle", "cq cqe", "cq comp_vector", "cq comp_channel", "qp user_handle",
		"qp pd_handle", "qp send_cq_handle", "qp recv_cq_handle", "qp srq_handle", "qp max_send_wr", "qp max_recv_wr",
		"qp max_send_sge", "qp max_recv_sge", "qp max_inline_data",
		"qp sq_sig_all", "qp qp_type", "qp is_srq"} {
		what, field, _ := strings.Cut(f, " ")
		fmt.Fprintf(&b, "CHECK(offsetof(struct ib_uverbs_create_%s, %s), "+
			"8 + offsetof(struct ib_uverbs_ex_create_%[1]s, %[2]s))\n",
			what, field)
	}
	for _, f := range []string{"pd_handle", "max_wr", "max_sge", "srq_limit"} {
		fmt.Fprintf(&b, "CHECK(offsetof(struct ib_uverbs_create_srq, %s), "+
			"offsetof(struct ib_uverbs_create_xsrq, %[1]s) - 4)\n",
			f)
	}
	for _, m := range Cmds {
		s := sizes[m.Number]
		fmt.Fprintf(&b, "CHECK(%s, %d)\nCHECK(%s, %d)\n", s[0], m.Req, s[1], m.Resp)
	}
	for c, v := range numbers {
		fmt.Fprintf(&b, "CHECK(%s, %#x)\n", c, v)
	}
	b.WriteString("int main(void) { return 0; }\n")
	return b.String()
}

// numbers pairs constants, and the ids in Methods and Cmds, with the headers' names.
var numbers = func() map[string]uint64 {
	n := map[string]uint64{
		"RDMA_VERBS_IOCTL": VerbsIoctl, "RDMA_DRIVER_MLX5": DriverMlx5, "UVERBS_ATTR_F_MANDATORY": attrMandatory,
		"UVERBS_ATTR_F_VALID_OUTPUT": attrValidOutput, "UVERBS_OBJECT_DEVICE": ObjDevice,
		"UVERBS_OBJECT_PD": ObjPD, "UVERBS_OBJECT_CQ": ObjCQ, "UVERBS_OBJECT_QP": ObjQP, "UVERBS_OBJECT_SRQ": ObjSRQ,
		"UVERBS_OBJECT_AH": ObjAH, "UVERBS_OBJECT_MR": ObjMR, "UVERBS_OBJECT_MW": ObjMW,
		"UVERBS_OBJECT_XRCD": ObjXRCD, "UVERBS_OBJECT_RWQ_IND_TBL": ObjIndTable, "UVERBS_OBJECT_WQ": ObjWQ,
		"UVERBS_OBJECT_ASYNC_EVENT": ObjAsyncEvent, "MLX5_IB_OBJECT_DEVX": ObjDevx,
		"MLX5_IB_OBJECT_DEVX_OBJ": ObjDevxObj, "MLX5_IB_OBJECT_DEVX_UMEM": ObjDevxUmem,
		"MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD": ObjDevxAnswer,
		"MLX5_IB_OBJECT_UAR":               ObjUAR, "UVERBS_ATTR_UHW_IN": UHWIn, "UVERBS_ATTR_UHW_OUT": UHWOut,
		"UVERBS_ATTR_CORE_IN": CoreIn, "UVERBS_ATTR_CORE_OUT": CoreOut, "UVERBS_ATTR_WRITE_CMD": WriteCmd,
		"IB_USER_VERBS_CMD_FLAG_EXTENDED": CmdExtended, "IB_USER_VERBS_CMD_COMMAND_MASK": cmdMask,
		"MLX5_IB_ALLOC_UCTX_DEVX": UctxDEVX, "MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET": RespCoreClock,
		"MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY": RespDumpFill,
		"MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS":        RespSQD2RTS, "1 << MLX5_IB_CLOCK_INFO_V1": ClockInfoV1,
		"MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD": CQFlag128BPad, "MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX": CQFlagUAR,
		"MLX5_IB_CREATE_CQ_FLAGS_REAL_TIME_TS": CQFlagRealTime, "MLX5_QP_FLAG_SIGNATURE": QPFlagSignature,
		"MLX5_QP_FLAG_SCATTER_CQE": QPFlagScatterCQE, "MLX5_QP_FLAG_BFREG_INDEX": QPFlagBFRegIndex,
		"MLX5_QP_FLAG_TYPE_DCT": QPFlagDCT, "MLX5_QP_FLAG_TYPE_DCI": QPFlagDCI,
		"MLX5_QP_FLAG_ALLOW_SCATTER_CQE": QPFlagAllowScatter,
		"MLX5_QP_FLAG_UAR_PAGE_INDEX":    QPFlagUARPage, "MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD": DevRespPad128,
		"MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP": DevRespComp128,
		"MLX5_IB_MMAP_CORE_CLOCK":                    MmapCoreClock, "MLX5_IB_MMAP_CLOCK_INFO": MmapClockInfo,
		"MLX5_IB_MMAP_DEVICE_MEM + 1": MmapUAR, "MLX5_IB_UAPI_PP_ALLOC_FLAGS_DEDICATED_INDEX": PaceDedicated,
	}
	plain := map[uint32]string{0: "GET_CONTEXT", 1: "QUERY_DEVICE", 2: "QUERY_PORT", 3: "ALLOC_PD", 4: "DEALLOC_PD",
		5: "CREATE_AH", 8: "DESTROY_AH", 9: "REG_MR", 11: "REREG_MR", 13: "DEREG_MR", 14: "ALLOC_MW",
		16: "DEALLOC_MW", 17: "CREATE_COMP_CHANNEL", 18: "CREATE_CQ", 19: "RESIZE_CQ", 20: "DESTROY_CQ",
		24: "CREATE_QP", 25: "QUERY_QP", 26: "MODIFY_QP", 27: "DESTROY_QP", 30: "ATTACH_MCAST", 31: "DETACH_MCAST",
		32: "CREATE_SRQ", 33: "MODIFY_SRQ",
		34: "QUERY_SRQ", 35: "DESTROY_SRQ", 37: "OPEN_XRCD", 38: "CLOSE_XRCD", 39: "CREATE_XSRQ", 40: "OPEN_QP"}
	for k, v := range plain {
		n["IB_USER_VERBS_CMD_"+v] = uint64(k)
	}
	for k, v := range map[uint64]string{1: "QUERY_DEVICE", 18: "CREATE_CQ", 24: "CREATE_QP", 26: "MODIFY_QP",
		52: "CREATE_WQ", 53: "MODIFY_WQ", 54: "DESTROY_WQ", 55: "CREATE_RWQ_IND_TBL", 56: "DESTROY_RWQ_IND_TBL",
		57: "MODIFY_CQ"} {
		n["IB_USER_VERBS_EX_CMD_"+v] = k
	}
	// Methods and attributes: by object, method, and each attribute's name in the order of Methods. reg_mr is newer
	// than the oldest headers that we want to compile with.
	for _, m := range []struct {
		obj, id uint16
		names   string
	}{
		{0, 0, "UVERBS_METHOD_INVOKE_WRITE UVERBS_ATTR_CORE_IN UVERBS_ATTR_CORE_OUT UVERBS_ATTR_WRITE_CMD " +
			"UVERBS_ATTR_UHW_IN UVERBS_ATTR_UHW_OUT"},
		{0, 1, "UVERBS_METHOD_INFO_HANDLES UVERBS_ATTR_INFO_OBJECT_ID UVERBS_ATTR_INFO_TOTAL_HANDLES " +
			"UVERBS_ATTR_INFO_HANDLES_LIST"},
		{0, 2, "UVERBS_METHOD_QUERY_PORT UVERBS_ATTR_QUERY_PORT_PORT_NUM UVERBS_ATTR_QUERY_PORT_RESP"},
		{0, 3, "UVERBS_METHOD_GET_CONTEXT UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS " +
			"UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT UVERBS_ATTR_UHW_IN UVERBS_ATTR_UHW_OUT"},
		{0, 4, "UVERBS_METHOD_QUERY_CONTEXT UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS " +
			"UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX"},
		{0, 5, "UVERBS_METHOD_QUERY_GID_TABLE UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE " +
			"UVERBS_ATTR_QUERY_GID_TABLE_FLAGS UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES " +
			"UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES"},
		{0, 6, "UVERBS_METHOD_QUERY_GID_ENTRY UVERBS_ATTR_QUERY_GID_ENTRY_PORT UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX " +
			"UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY"},
		{0, 0x1000, "MLX5_IB_METHOD_QUERY_PORT MLX5_IB_ATTR_QUERY_PORT_PORT_NUM MLX5_IB_ATTR_QUERY_PORT"},
		{1, 0, "UVERBS_METHOD_PD_DESTROY UVERBS_ATTR_DESTROY_PD_HANDLE"},
		{1, 0x1000, "MLX5_IB_METHOD_PD_QUERY MLX5_IB_ATTR_QUERY_PD_HANDLE MLX5_IB_ATTR_QUERY_PD_RESP_PDN"},
		{3, 0, "UVERBS_METHOD_CQ_CREATE UVERBS_ATTR_CREATE_CQ_HANDLE UVERBS_ATTR_CREATE_CQ_CQE " +
			"UVERBS_ATTR_CREATE_CQ_USER_HANDLE UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL UVERBS_ATTR_CREATE_CQ_COMP_VECTOR " +
			"UVERBS_ATTR_CREATE_CQ_FLAGS UVERBS_ATTR_CREATE_CQ_RESP_CQE UVERBS_ATTR_CREATE_CQ_EVENT_FD " +
			"UVERBS_ATTR_UHW_IN UVERBS_ATTR_UHW_OUT"},
		{3, 1, "UVERBS_METHOD_CQ_DESTROY UVERBS_ATTR_DESTROY_CQ_HANDLE UVERBS_ATTR_DESTROY_CQ_RESP"},
		{4, 0, "UVERBS_METHOD_QP_CREATE UVERBS_ATTR_CREATE_QP_HANDLE UVERBS_ATTR_CREATE_QP_XRCD_HANDLE " +
			"UVERBS_ATTR_CREATE_QP_PD_HANDLE UVERBS_ATTR_CREATE_QP_SRQ_HANDLE UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE " +
			"UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE " +
			"UVERBS_ATTR_CREATE_QP_USER_HANDLE UVERBS_ATTR_CREATE_QP_CAP UVERBS_ATTR_CREATE_QP_TYPE " +
			"UVERBS_ATTR_CREATE_QP_FLAGS UVERBS_ATTR_CREATE_QP_SOURCE_QPN UVERBS_ATTR_CREATE_QP_EVENT_FD " +
			"UVERBS_ATTR_CREATE_QP_RESP_CAP UVERBS_ATTR_CREATE_QP_RESP_QP_NUM UVERBS_ATTR_UHW_IN UVERBS_ATTR_UHW_OUT"},
		{4, 1, "UVERBS_METHOD_QP_DESTROY UVERBS_ATTR_DESTROY_QP_HANDLE UVERBS_ATTR_DESTROY_QP_RESP"},
		{5, 0, "UVERBS_METHOD_SRQ_CREATE UVERBS_ATTR_CREATE_SRQ_HANDLE UVERBS_ATTR_CREATE_SRQ_PD_HANDLE " +
			"UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE UVERBS_ATTR_CREATE_SRQ_USER_HANDLE " +
			"UVERBS_ATTR_CREATE_SRQ_MAX_WR UVERBS_ATTR_CREATE_SRQ_MAX_SGE UVERBS_ATTR_CREATE_SRQ_LIMIT " +
			"UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS UVERBS_ATTR_CREATE_SRQ_TYPE UVERBS_ATTR_CREATE_SRQ_EVENT_FD " +
			"UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE " +
			"UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM UVERBS_ATTR_UHW_IN UVERBS_ATTR_UHW_OUT"},
		{5, 1, "UVERBS_METHOD_SRQ_DESTROY UVERBS_ATTR_DESTROY_SRQ_HANDLE UVERBS_ATTR_DESTROY_SRQ_RESP"},
		{6, 0, "UVERBS_METHOD_AH_DESTROY UVERBS_ATTR_DESTROY_AH_HANDLE"},
		{7, 0, "UVERBS_METHOD_DM_MR_REG UVERBS_ATTR_REG_DM_MR_HANDLE UVERBS_ATTR_REG_DM_MR_OFFSET " +
			"UVERBS_ATTR_REG_DM_MR_LENGTH UVERBS_ATTR_REG_DM_MR_PD_HANDLE UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS " +
			"UVERBS_ATTR_REG_DM_MR_DM_HANDLE UVERBS_ATTR_REG_DM_MR_RESP_LKEY UVERBS_ATTR_REG_DM_MR_RESP_RKEY"},
		{7, 1, "UVERBS_METHOD_MR_DESTROY UVERBS_ATTR_DESTROY_MR_HANDLE"},
		{7, 2, "UVERBS_METHOD_ADVISE_MR UVERBS_ATTR_ADVISE_MR_PD_HANDLE UVERBS_ATTR_ADVISE_MR_ADVICE " +
			"UVERBS_ATTR_ADVISE_MR_FLAGS UVERBS_ATTR_ADVISE_MR_SGE_LIST"},
		{7, 3, "UVERBS_METHOD_QUERY_MR UVERBS_ATTR_QUERY_MR_HANDLE UVERBS_ATTR_QUERY_MR_RESP_LKEY " +
			"UVERBS_ATTR_QUERY_MR_RESP_RKEY UVERBS_ATTR_QUERY_MR_RESP_LENGTH UVERBS_ATTR_QUERY_MR_RESP_IOVA"},
		{7, 4, "UVERBS_METHOD_REG_DMABUF_MR UVERBS_ATTR_REG_DMABUF_MR_HANDLE UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE " +
			"UVERBS_ATTR_REG_DMABUF_MR_OFFSET UVERBS_ATTR_REG_DMABUF_MR_LENGTH UVERBS_ATTR_REG_DMABUF_MR_IOVA " +
			"UVERBS_ATTR_REG_DMABUF_MR_FD UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY " +
			"UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY (1U<<UVERBS_ID_NS_SHIFT)"},
		{8, 0, "UVERBS_METHOD_MW_DESTROY UVERBS_ATTR_DESTROY_MW_HANDLE"},
		{10, 0, "UVERBS_METHOD_XRCD_DESTROY UVERBS_ATTR_DESTROY_XRCD_HANDLE"},
		{11, 0, "UVERBS_METHOD_RWQ_IND_TBL_DESTROY UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE"},
		{12, 0, "UVERBS_METHOD_WQ_CREATE UVERBS_ATTR_CREATE_WQ_HANDLE UVERBS_ATTR_CREATE_WQ_PD_HANDLE " +
			"UVERBS_ATTR_CREATE_WQ_CQ_HANDLE UVERBS_ATTR_CREATE_WQ_USER_HANDLE UVERBS_ATTR_CREATE_WQ_TYPE " +
			"UVERBS_ATTR_CREATE_WQ_EVENT_FD UVERBS_ATTR_CREATE_WQ_MAX_WR UVERBS_ATTR_CREATE_WQ_MAX_SGE " +
			"UVERBS_ATTR_CREATE_WQ_FLAGS UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE " +
			"UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM UVERBS_ATTR_UHW_IN UVERBS_ATTR_UHW_OUT"},
		{12, 1, "UVERBS_METHOD_WQ_DESTROY UVERBS_ATTR_DESTROY_WQ_HANDLE UVERBS_ATTR_DESTROY_WQ_RESP"},
		{14, 0, "UVERBS_METHOD_DM_ALLOC UVERBS_ATTR_ALLOC_DM_HANDLE UVERBS_ATTR_ALLOC_DM_LENGTH " +
			"UVERBS_ATTR_ALLOC_DM_ALIGNMENT MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET " +
			"MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE"},
		{14, 1, "UVERBS_METHOD_DM_FREE UVERBS_ATTR_FREE_DM_HANDLE"},
		{14, 0x1000, "MLX5_IB_METHOD_DM_MAP_OP_ADDR MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_HANDLE " +
			"MLX5_IB_ATTR_DM_MAP_OP_ADDR_REQ_OP MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET " +
			"MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX"},
		{14, 0x1001, "MLX5_IB_METHOD_DM_QUERY MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE " +
			"MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX " +
			"MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH"},
		{16, 0, "UVERBS_METHOD_ASYNC_EVENT_ALLOC UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE"},
		{0x1000, 0x1000, "MLX5_IB_METHOD_DEVX_OTHER MLX5_IB_ATTR_DEVX_OTHER_CMD_IN MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT"},
		{0x1000, 0x1001, "MLX5_IB_METHOD_DEVX_QUERY_UAR MLX5_IB_ATTR_DEVX_QUERY_UAR_USER_IDX " +
			"MLX5_IB_ATTR_DEVX_QUERY_UAR_DEV_IDX"},
		{0x1000, 0x1002, "MLX5_IB_METHOD_DEVX_QUERY_EQN MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC " +
			"MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN"},
		{0x1001, 0x1000, "MLX5_IB_METHOD_DEVX_OBJ_CREATE MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE " +
			"MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT"},
		{0x1001, 0x1001, "MLX5_IB_METHOD_DEVX_OBJ_DESTROY MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE"},
		{0x1001, 0x1002, "MLX5_IB_METHOD_DEVX_OBJ_MODIFY MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE " +
			"MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT"},
		{0x1001, 0x1003, "MLX5_IB_METHOD_DEVX_OBJ_QUERY MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE " +
			"MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT"},
		{0x1002, 0x1000, "MLX5_IB_METHOD_DEVX_UMEM_REG MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE " +
			"MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR MLX5_IB_ATTR_DEVX_UMEM_REG_LEN MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS " +
			"MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP " +
			"MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD"},
		{0x1002, 0x1001, "MLX5_IB_METHOD_DEVX_UMEM_DEREG MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE"},
		{0x1008, 0x1000, "MLX5_IB_METHOD_UAR_OBJ_ALLOC MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE " +
			"MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET " +
			"MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID"},
		{0x1008, 0x1001, "MLX5_IB_METHOD_UAR_OBJ_DESTROY MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE"},
	} {
		names := strings.Fields(m.names)
		n[names[0]] = uint64(m.id)
		for i := range Methods {
			if Methods[i].Object == m.obj && Methods[i].ID == m.id {
				for j, s := range Methods[i].Attrs {
					n[names[1+j]] = uint64(s.ID)
				}
			}
		}
	}
	return n
}()

func TestHeaders(t *testing.T) {
	if _, err := os.Stat("/usr/include/rdma/mlx5_user_ioctl_cmds.h"); err != nil {
		t.Skip("no RDMA headers: make setup installs them")
	}
	src := filepath.Join(t.TempDir(), "layout.c")
	if err := os.WriteFile(src, []byte(program()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cc := range []string{"gcc", "aarch64-linux-gnu-gcc"} {
		t.Run(cc, func(t *testing.T) {
			if _, err := exec.LookPath(cc); err != nil {
				t.Skipf("no %s: make setup installs it", cc)
			}
			// The cross compiler looks in its own folders only.
			if o, err := exec.Command(cc, "-idirafter", "/usr/include", "-fsyntax-only", "-std=gnu11",
				src).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, o)
			}
		})
	}
}

// A wrong number must not pass: the same program with one offset changed.
func TestHeadersNoticeMistakes(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc: make setup installs it")
	}
	src := filepath.Join(t.TempDir(), "wrong.c")
	p := strings.Replace(program(), "CHECK(offsetof(struct ib_uverbs_reg_mr, hca_va), 24)",
		"CHECK(offsetof(struct ib_uverbs_reg_mr, hca_va), 32)", 1)
	if err := os.WriteFile(src, []byte(p), 0o600); err != nil {
		t.Fatal(err)
	}
	if exec.Command("gcc", "-fsyntax-only", src).Run() == nil {
		t.Error("a wrong offset passed")
	}
}

func TestNoPointers(t *testing.T) {
	var walk func(t reflect.Type) bool
	walk = func(t reflect.Type) bool {
		switch t.Kind() {
		case reflect.Struct:
			for i := range t.NumField() {
				if !walk(t.Field(i).Type) {
					return false
				}
			}
			return true
		case reflect.Array:
			return walk(t.Elem())
		case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Int32:
			return true
		}
		return false
	}
	for c, v := range mirrors {
		if !walk(reflect.TypeOf(v)) {
			t.Errorf("%s: Decode needs a struct of plain numbers", c)
		}
	}
}
