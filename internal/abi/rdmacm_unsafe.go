package abi

import "unsafe"

// As in layout_unsafe.go, for librdmacm.
var (
	_ [4]byte   = [unsafe.Sizeof(RDMAEventChannel{})]byte{}
	_ [40]byte  = [unsafe.Sizeof(RDMAIBAddr{})]byte{}
	_ [296]byte = [unsafe.Sizeof(RDMAAddr{})]byte{}
	_ [312]byte = [unsafe.Sizeof(RDMARoute{})]byte{}
	_ [416]byte = [unsafe.Sizeof(RDMACMID{})]byte{}
	_ [24]byte  = [unsafe.Sizeof(RDMAConnParam{})]byte{}
	_ [56]byte  = [unsafe.Sizeof(RDMAUDParam{})]byte{}
	_ [80]byte  = [unsafe.Sizeof(RDMACMEvent{})]byte{}
	_ [96]byte  = [unsafe.Sizeof(RDMAAddrinfo{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(RDMAJoinMCAttrEx{})]byte{}
	_ [48]byte  = [unsafe.Sizeof(SockaddrIB{})]byte{}
	_ [64]byte  = [unsafe.Sizeof(PathRecord{})]byte{}
	_ [72]byte  = [unsafe.Sizeof(PathData{})]byte{}
	_ [64]byte  = [unsafe.Sizeof(SAPathRec{})]byte{}

	_ [32]byte  = [unsafe.Offsetof(RDMAIBAddr{}.PKey)]byte{}
	_ [128]byte = [unsafe.Offsetof(RDMAAddr{}.DstStorage)]byte{}
	_ [256]byte = [unsafe.Offsetof(RDMAAddr{}.Addr)]byte{}
	_ [304]byte = [unsafe.Offsetof(RDMARoute{}.NumPaths)]byte{}
	_ [344]byte = [unsafe.Offsetof(RDMACMID{}.PS)]byte{}
	_ [352]byte = [unsafe.Offsetof(RDMACMID{}.Event)]byte{}
	_ [408]byte = [unsafe.Offsetof(RDMACMID{}.QPType)]byte{}
	_ [14]byte  = [unsafe.Offsetof(RDMAConnParam{}.SRQ)]byte{}
	_ [16]byte  = [unsafe.Offsetof(RDMAConnParam{}.QPNum)]byte{}
	_ [16]byte  = [unsafe.Offsetof(RDMAUDParam{}.AHAttr)]byte{}
	_ [52]byte  = [unsafe.Offsetof(RDMAUDParam{}.QKey)]byte{}
	_ [24]byte  = [unsafe.Offsetof(RDMACMEvent{}.Param)]byte{}
	_ [24]byte  = [unsafe.Offsetof(RDMAAddrinfo{}.AISrcAddr)]byte{}
	_ [88]byte  = [unsafe.Offsetof(RDMAAddrinfo{}.AINext)]byte{}
	_ [24]byte  = [unsafe.Offsetof(SockaddrIB{}.SIBSID)]byte{}
	_ [44]byte  = [unsafe.Offsetof(PathRecord{}.FlowlabelHoplimit)]byte{}
	_ [8]byte   = [unsafe.Offsetof(PathData{}.Path)]byte{}
	_ [48]byte  = [unsafe.Offsetof(SAPathRec{}.Reversible)]byte{}
)

// Conn is the event's parameter of a connection.
func (e *RDMACMEvent) Conn() *RDMAConnParam { return (*RDMAConnParam)(unsafe.Pointer(&e.Param)) }

// Arg is the event's parameter of RDMA_CM_EVENT_USER.
func (e *RDMACMEvent) Arg() uint64 { return *(*uint64)(unsafe.Pointer(&e.Param)) }
