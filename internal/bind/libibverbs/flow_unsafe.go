package libibverbs

import (
	"runtime"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// struct ibv_flow *(*ibv_create_flow)(struct ibv_qp *, struct ibv_flow_attr *);
// An op of verbs_context, as are all here. attr holds a struct ibv_flow_attr and its specs.
func (l Lib) CreateFlow(ctx, qp uintptr, attr []byte) (uintptr, error) {
	return opPtr(ctx, abi.DistCreateFlow, qp, uintptr(unsafe.Pointer(unsafe.SliceData(attr))))
}

// int (*ibv_destroy_flow)(struct ibv_flow *);
func (l Lib) DestroyFlow(ctx, flow uintptr) error {
	return l.Destroyed(ctx, opErr(ctx, abi.DistDestroyFlow, flow))
}

// struct ibv_counters *(*create_counters)(struct ibv_context *, struct ibv_counters_init_attr *); v19.
func (l Lib) CreateCounters(ctx uintptr) (uintptr, error) {
	return opPtr(ctx, abi.DistCreateCounters, ctx, uintptr(unsafe.Pointer(new(abi.CountersInitAttr))))
}

// int (*destroy_counters)(struct ibv_counters *);
func (l Lib) DestroyCounters(ctx, counters uintptr) error {
	return l.Destroyed(ctx, opErr(ctx, abi.DistDestroyCounters, counters))
}

// int (*attach_counters_point_flow)(struct ibv_counters *, struct ibv_counter_attach_attr *, struct ibv_flow *);
func (l Lib) AttachCountersPointFlow(ctx, counters uintptr, attr *abi.CounterAttachAttr, flow uintptr) error {
	return opErr(ctx, abi.DistAttachCountersPointFlow, counters, uintptr(unsafe.Pointer(attr)), flow)
}

// int (*read_counters)(struct ibv_counters *, uint64_t *values, uint32_t n, uint32_t flags);
func (l Lib) ReadCounters(ctx, counters uintptr, values []uint64, flags uint32) error {
	return opErr(ctx, abi.DistReadCounters, counters, uintptr(unsafe.Pointer(unsafe.SliceData(values))),
		uintptr(len(values)), uintptr(flags))
}

// struct ibv_flow_action *(*create_flow_action_esp)(struct ibv_context *, struct ibv_flow_action_esp_attr *); v18.
func (l Lib) CreateFlowActionESP(ctx uintptr, e *abi.ESP) (uintptr, error) {
	var pin runtime.Pinner
	pin.Pin(e)
	defer pin.Unpin()
	return opPtr(ctx, abi.DistCreateFlowActionESP, ctx, uintptr(unsafe.Pointer(e.C())))
}

// int (*modify_flow_action_esp)(struct ibv_flow_action *, struct ibv_flow_action_esp_attr *);
func (l Lib) ModifyFlowActionESP(ctx, action uintptr, e *abi.ESP) error {
	var pin runtime.Pinner
	pin.Pin(e)
	defer pin.Unpin()
	return opErr(ctx, abi.DistModifyFlowActionESP, action, uintptr(unsafe.Pointer(e.C())))
}

// int (*destroy_flow_action)(struct ibv_flow_action *);
func (l Lib) DestroyFlowAction(ctx, action uintptr) error {
	return l.Destroyed(ctx, opErr(ctx, abi.DistDestroyFlowAction, action))
}
