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

// struct ibv_counters *(*create_counters)(struct ibv_context *, struct ibv_counters_init_attr *); v19.
func (l Lib) CreateCounters(ctx uintptr) (uintptr, error) {
	return opPtr(ctx, abi.DistCreateCounters, ctx, uintptr(unsafe.Pointer(new(abi.CountersInitAttr))))
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
