//go:build linux

package uapi

// Objects of the ioctl. C: enum uverbs_default_objects, mlx5_ib_objects.
const (
	ObjDevice     = 0
	ObjPD         = 1
	ObjCQ         = 3
	ObjQP         = 4
	ObjSRQ        = 5
	ObjAH         = 6
	ObjMR         = 7
	ObjMW         = 8
	ObjFlow       = 9
	ObjXRCD       = 10
	ObjIndTable   = 11
	ObjWQ         = 12
	ObjFlowAction = 13
	ObjDM         = 14
	ObjCounters   = 15
	ObjAsyncEvent = 16
	ObjDMAH       = 17
	ObjDevx       = DriverNS
	ObjDevxObj    = DriverNS + 1
	ObjDevxUmem   = DriverNS + 2
	ObjDevxAnswer = DriverNS + 4
	ObjMatcher    = DriverNS + 3
	ObjVAR        = DriverNS + 6
	ObjPace       = DriverNS + 7
	ObjUAR        = DriverNS + 8
	ObjAnchor     = DriverNS + 9
)

func in(id, size uint16) Spec  { return Spec{ID: id, Kind: In, Min: size, Max: size} }
func out(id, size uint16) Spec { return Spec{ID: id, Kind: Out, Min: size, Max: size} }
func atLeast(s Spec) Spec      { s.Trailing = true; return s }
func opt(s Spec) Spec          { s.Optional = true; return s }
func handle(id uint16) Spec    { return Spec{ID: id, Kind: Handle} }
func fd(id uint16) Spec        { return Spec{ID: id, Kind: FD, Optional: true} }
func newID(id uint16) Spec     { return Spec{ID: id, Kind: NewID} }
func flags(id uint16) Spec     { return Spec{ID: id, Kind: In, Min: 4, Max: 8, Optional: true} }
func uhw(s ...Spec) []Spec {
	return append(s, opt(any1(UHWIn)), opt(atLeast(out(UHWOut, 0))))
}
func destroy(resp ...Spec) []Spec { return append([]Spec{handle(0)}, resp...) }

// Methods is all that the ioctl answers; anything else is EPROTONOSUPPORT, as with a kernel whose driver lacks it. A
// method has the name of the same command in Cmds.
var Methods = []Method{
	{ObjDevice, 0, "invoke_write", uhw(opt(any1(CoreIn)), opt(atLeast(out(CoreOut, 0))), in(WriteCmd, 8))},
	{ObjDevice, 1, "info_handles", []Spec{in(0, 8), opt(out(1, 4)), opt(atLeast(out(2, 4)))}},
	{ObjDevice, 2, "query_port", []Spec{in(0, 8), atLeast(out(1, 48))}},
	{ObjDevice, 3, "get_context", uhw(opt(out(0, 4)), opt(out(1, 8)))},
	{ObjDevice, 4, "query_context", []Spec{opt(out(0, 4)), opt(out(1, 8)), opt(atLeast(out(DriverNS, 72)))}},
	{ObjDevice, 5, "query_gid_table", []Spec{in(0, 8), flags(1), atLeast(out(2, 0)), out(3, 8)}},
	{ObjDevice, 6, "query_gid_entry", []Spec{in(0, 8), in(1, 8), flags(2), atLeast(out(3, 32))}},
	{ObjDevice, 7, "query_port_speed", []Spec{in(0, 8), out(1, 8)}},
	{ObjDevice, DriverNS, "mlx5_query_port", []Spec{in(DriverNS, 4), atLeast(out(DriverNS+1, 40))}},
	{ObjPD, 0, "dealloc_pd", destroy()},
	{ObjPD, DriverNS, "mlx5_query_pd", []Spec{handle(DriverNS), out(DriverNS+1, 4)}},
	{ObjCQ, 0, "create_cq", uhw(newID(0), in(1, 4), in(2, 8), fd(3), in(4, 4), flags(5), out(6, 4), fd(7))},
	{ObjCQ, 1, "destroy_cq", destroy(atLeast(out(1, 8)))},
	{ObjQP, 0, "create_qp", uhw(newID(0), opt(handle(1)), opt(handle(2)), opt(handle(3)), opt(handle(4)),
		opt(handle(5)), opt(handle(6)), in(7, 8),
		atLeast(in(8, 20)), in(9, 8), flags(10), opt(in(11, 4)), fd(12), atLeast(out(13, 20)), out(14, 4))},
	{ObjQP, 1, "destroy_qp", destroy(atLeast(out(1, 4)))},
	{ObjSRQ, 0, "create_srq", uhw(newID(0), handle(1), opt(handle(2)), opt(handle(3)), in(4, 8), in(5, 4), in(6, 4),
		in(7, 4), opt(in(8, 4)), in(9, 8),
		fd(10), out(11, 4), out(12, 4), opt(out(13, 4)))},
	{ObjSRQ, 1, "destroy_srq", destroy(atLeast(out(1, 4)))},
	{ObjAH, 0, "destroy_ah", destroy()},
	{ObjMR, 0, "reg_dm_mr", []Spec{newID(0), in(1, 8), in(2, 8), handle(3), flags(4), handle(5), out(6, 4), out(7, 4)}},
	{ObjMR, 1, "dereg_mr", destroy()},
	{ObjMR, 2, "advise_mr", []Spec{handle(0), in(1, 8), flags(2), {ID: 3, Kind: In, Min: 16, Max: 65535}}},
	{ObjMR, 3, "query_mr", []Spec{handle(0), out(1, 4), out(2, 4), out(3, 8), opt(out(4, 8))}},
	{ObjMR, 4, "reg_dmabuf_mr", []Spec{newID(0), handle(1), in(2, 8), in(3, 8), in(4, 8), in(5, 4), flags(6), out(7, 4),
		out(8, 4), flags(DriverNS)}},
	{ObjMR, 5, "reg_mr", []Spec{newID(0), handle(1), opt(handle(2)), in(3, 8), opt(in(4, 8)), in(5, 8), flags(6), fd(7),
		opt(in(8, 8)), out(9, 4), out(10, 4)}},
	{ObjMW, 0, "dealloc_mw", destroy()},
	{ObjFlow, 0, "destroy_flow", destroy()},
	{ObjFlow, DriverNS, "matcher_flow", []Spec{newID(DriverNS), sized(DriverNS+1, 1, matchParams),
		opt(handle(DriverNS + 2)), opt(handle(DriverNS + 3)), handle(DriverNS + 4), opt(sized(DriverNS+5, 4, 2*4)),
		opt(in(DriverNS+6, 4)), opt(in(DriverNS+7, 4)), opt(sized(DriverNS+8, 4, 65535)), flags(DriverNS + 9)}},
	{ObjFlowAction, 1, "destroy_flow_action", destroy()},
	{ObjFlowAction, DriverNS, "header_action", []Spec{newID(DriverNS), sized(DriverNS+1, 8, 65535),
		in(DriverNS+2, 8)}},
	{ObjFlowAction, DriverNS + 1, "reformat_action", []Spec{newID(DriverNS), in(DriverNS+1, 8), in(DriverNS+2, 8),
		opt(sized(DriverNS+3, 1, 65535))}},
	{ObjMatcher, DriverNS, "matcher_create", []Spec{newID(DriverNS), sized(DriverNS+1, 1, matchParams),
		in(DriverNS+2, 2), in(DriverNS+3, 1), flags(DriverNS + 4), opt(in(DriverNS+5, 8))}},
	{ObjMatcher, DriverNS + 1, "matcher_destroy", []Spec{handle(DriverNS)}},
	{ObjAnchor, DriverNS, "anchor_create", []Spec{newID(DriverNS), in(DriverNS+1, 8), in(DriverNS+2, 2),
		out(DriverNS+3, 4)}},
	{ObjAnchor, DriverNS + 1, "anchor_destroy", []Spec{handle(DriverNS)}},
	{ObjXRCD, 0, "close_xrcd", destroy()},
	{ObjIndTable, 0, "destroy_rwq_ind_tbl", destroy()},
	{ObjWQ, 0, "create_wq", uhw(newID(0), handle(1), handle(2), in(3, 8), in(4, 8), fd(5), in(6, 4), in(7, 4), flags(8),
		out(9, 4), out(10, 4), opt(out(11, 4)))},
	{ObjWQ, 1, "destroy_wq", destroy(atLeast(out(1, 4)))},
	{ObjDM, 0, "alloc_dm", []Spec{newID(0), in(1, 8), in(2, 4), opt(out(DriverNS, 8)), opt(out(DriverNS+1, 2)),
		opt(in(DriverNS+2, 8))}},
	{ObjDM, 1, "free_dm", destroy()},
	{ObjDM, DriverNS, "mlx5_dm_map_op", []Spec{handle(DriverNS), in(DriverNS+1, 1), out(DriverNS+2, 8),
		out(DriverNS+3, 2)}},
	{ObjDM, DriverNS + 1, "mlx5_query_dm", []Spec{handle(DriverNS), out(DriverNS+1, 8), out(DriverNS+2, 2),
		out(DriverNS+3, 8)}},
	{ObjCounters, 0, "create_counters", []Spec{newID(0)}},
	{ObjCounters, 1, "destroy_counters", destroy()},
	{ObjCounters, 2, "read_counters", []Spec{handle(0), atLeast(out(1, 8)), flags(2)}},
	{ObjAsyncEvent, 0, "async_event_alloc", []Spec{newID(0)}},
	{ObjDMAH, 0, "alloc_dmah", []Spec{newID(0), opt(in(1, 4)), {ID: 2, Kind: Enum, Max: 2, Optional: true},
		opt(in(3, 1))}},
	{ObjDMAH, 1, "free_dmah", destroy()},
	{ObjDevx, DriverNS, "devx_other", []Spec{cmdIn(DriverNS), cmdOut(DriverNS + 1)}},
	{ObjDevx, DriverNS + 1, "devx_query_uar", []Spec{in(DriverNS, 4), out(DriverNS+1, 4)}},
	{ObjDevx, DriverNS + 2, "devx_query_eqn", []Spec{in(DriverNS, 4), out(DriverNS+1, 4)}},
	{ObjDevxObj, DriverNS, "devx_create", []Spec{newID(DriverNS), cmdIn(DriverNS + 1), cmdOut(DriverNS + 2)}},
	{ObjDevxObj, DriverNS + 1, "devx_destroy", []Spec{handle(DriverNS)}},
	{ObjDevxObj, DriverNS + 2, "devx_modify", []Spec{handle(DriverNS), cmdIn(DriverNS + 1), cmdOut(DriverNS + 2)}},
	{ObjDevxObj, DriverNS + 3, "devx_query", []Spec{handle(DriverNS), cmdIn(DriverNS + 1), cmdOut(DriverNS + 2)}},
	{ObjDevxObj, DriverNS + 4, "devx_query_async", []Spec{handle(DriverNS), cmdIn(DriverNS + 1), fd(DriverNS + 2),
		in(DriverNS+3, 8), in(DriverNS+4, 8)}},
	{ObjDevxAnswer, DriverNS, "devx_async_alloc", []Spec{newID(DriverNS)}},
	{ObjDevxUmem, DriverNS, "umem_reg", []Spec{newID(DriverNS), in(DriverNS+1, 8), in(DriverNS+2, 8),
		flags(DriverNS + 3), out(DriverNS+4, 4), opt(in(DriverNS+5, 8)), fd(DriverNS + 6)}},
	{ObjDevxUmem, DriverNS + 1, "umem_dereg", []Spec{handle(DriverNS)}},
	{ObjUAR, DriverNS, "uar_alloc", []Spec{newID(DriverNS), in(DriverNS+1, 8), out(DriverNS+2, 8), out(DriverNS+3, 4),
		out(DriverNS+4, 4)}},
	{ObjUAR, DriverNS + 1, "uar_destroy", []Spec{handle(DriverNS)}},
	{ObjVAR, DriverNS, "var_alloc", []Spec{newID(DriverNS), out(DriverNS+1, 8), out(DriverNS+2, 4),
		out(DriverNS+3, 4), opt(in(DriverNS+4, 4))}},
	{ObjVAR, DriverNS + 1, "var_destroy", []Spec{handle(DriverNS)}},
	{ObjPace, DriverNS, "pp_alloc", []Spec{newID(DriverNS), sized(DriverNS+1, 1, paceContext), in(DriverNS+2, 8),
		out(DriverNS+3, 2)}},
	{ObjPace, DriverNS + 1, "pp_destroy", []Spec{handle(DriverNS)}},
}

// cmdIn and cmdOut are a command of the adapter's own and its answer.
func cmdIn(id uint16) Spec  { return Spec{ID: id, Kind: In, Min: CmdHeader, Max: 65535} }
func cmdOut(id uint16) Spec { return Spec{ID: id, Kind: Out, Min: OutHeader, Max: 65535} }

// sized is an In attribute of least to most bytes.
func sized(id, least, most uint16) Spec { return Spec{ID: id, Kind: In, Min: least, Max: most} }

// matchParams is the most that a matcher compares. C: struct mlx5_ib_match_params.
const matchParams = 4 * 0xa0

// paceContext is the most of what a rate is made of. C: MLX5_ST_SZ_BYTES(set_pp_rate_limit_context).
const paceContext = 48

// any1 is an In attribute of any size.
func any1(id uint16) Spec { return Spec{ID: id, Kind: In, Max: 65535} }

const ex = CmdExtended

// Cmds lists the commands of write() that are answered; the rest is EOPNOTSUPP. Sizes are those that the kernel insists
// on.
var Cmds = []Cmd{
	{0, "get_context", 8, 8},
	{1, "query_device", 8, 176},
	{2, "query_port", 16, 40},
	{3, "alloc_pd", 8, 4},
	{4, "dealloc_pd", 4, 0},
	{5, "create_ah", 56, 4},
	{8, "destroy_ah", 4, 0},
	{9, "reg_mr", 40, 12},
	{11, "rereg_mr", 48, 8},
	{13, "dereg_mr", 4, 0},
	{14, "alloc_mw", 16, 8},
	{16, "dealloc_mw", 4, 0},
	{17, "create_comp_channel", 8, 4},
	{18, "create_cq", 32, 8},
	{19, "resize_cq", 16, 8},
	{cmdDestroyCQ, "destroy_cq", 16, 8},
	{24, "create_qp", 56, 32},
	{25, "query_qp", 16, 128},
	{26, "modify_qp", 112, 0},
	{27, "destroy_qp", 16, 4},
	{30, "attach_mcast", 24, 0},
	{31, "detach_mcast", 24, 0},
	{32, "create_srq", 32, 16},
	{33, "modify_srq", 16, 0},
	{34, "query_srq", 16, 16},
	{35, "destroy_srq", 16, 4},
	{37, "open_xrcd", 16, 4},
	{38, "close_xrcd", 4, 0},
	{39, "create_xsrq", 48, 16},
	{40, "open_qp", 32, 32},
	{ex | 1, "query_device_ex", 8, 184},
	{ex | 18, "create_cq", 32, 16},
	{ex | 24, "create_qp", 52, 40},
	{ex | 26, "modify_qp", 112, 8},
	{ex | 50, "create_flow", 24, 8},
	{ex | 51, "destroy_flow", 8, 0},
	{ex | 52, "create_wq", 32, 24},
	{ex | 53, "modify_wq", 16, 0},
	{ex | 54, "destroy_wq", 8, 16},
	{ex | 55, "create_rwq_ind_tbl", 8, 16},
	{ex | 56, "destroy_rwq_ind_tbl", 8, 0},
	{ex | 57, "modify_cq", 16, 0},
}
