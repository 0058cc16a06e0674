package abi

import "unsafe"

// Conn is the event's parameter of a connection.
func (e *RDMACMEvent) Conn() *RDMAConnParam { return (*RDMAConnParam)(unsafe.Pointer(&e.Param)) }

// Arg is the event's parameter of RDMA_CM_EVENT_USER.
func (e *RDMACMEvent) Arg() uint64 { return *(*uint64)(unsafe.Pointer(&e.Param)) }
