package abi

import "structs"

// AsyncEvent is struct ibv_async_event (infiniband/verbs.h, rdma-core v65).
type AsyncEvent struct {
	_         structs.HostLayout
	Element   uintptr // union: cq, qp, srq, wq, or port_num in the low 32 bits
	EventType uint32  // enum ibv_event_type
	_         [4]byte
}

// PortNum returns the port of a port event.
func (e *AsyncEvent) PortNum() int32 { return int32(e.Element) }
