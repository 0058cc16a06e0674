package abi

import "structs"

// RDMAEventChannel is struct rdma_event_channel (rdma/rdma_cma.h, rdma-core v65).
type RDMAEventChannel struct {
	_  structs.HostLayout
	FD int32
}

// RDMAIBAddr is struct rdma_ib_addr (rdma/rdma_cma.h, rdma-core v65).
type RDMAIBAddr struct {
	_    structs.HostLayout
	_    [0]uint64 // the alignment of union ibv_gid
	SGID GID
	DGID GID
	PKey Be16
	_    [6]byte
}

// RDMAAddr is struct rdma_addr (rdma/rdma_cma.h, rdma-core v65). Addresses are
// struct sockaddr_storage in memory order.
type RDMAAddr struct {
	_          structs.HostLayout
	SrcStorage [SockaddrStorage]byte
	DstStorage [SockaddrStorage]byte
	Addr       RDMAIBAddr
}

// SockaddrStorage is the size of struct sockaddr_storage.
const SockaddrStorage = 128

// RDMARoute is struct rdma_route (rdma/rdma_cma.h, rdma-core v65).
type RDMARoute struct {
	_        structs.HostLayout
	Addr     RDMAAddr
	PathRec  uintptr
	NumPaths int32
	_        [4]byte
}

// RDMACMID is struct rdma_cm_id (rdma/rdma_cma.h, rdma-core v65). Only librdmacm creates them:
// private fields follow.
type RDMACMID struct {
	_             structs.HostLayout
	Verbs         uintptr
	Channel       uintptr
	Context       uintptr
	QP            uintptr
	Route         RDMARoute
	PS            uint32
	PortNum       uint8
	_             [3]byte
	Event         uintptr
	SendCQChannel uintptr
	SendCQ        uintptr
	RecvCQChannel uintptr
	RecvCQ        uintptr
	SRQ           uintptr
	PD            uintptr
	QPType        uint32
	_             [4]byte
}

// RDMAConnParam is struct rdma_conn_param (rdma/rdma_cma.h, rdma-core v65).
type RDMAConnParam struct {
	_                  structs.HostLayout
	PrivateData        uintptr
	PrivateDataLen     uint8
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        uint8
	RetryCount         uint8
	RNRRetryCount      uint8
	SRQ                uint8
	_                  [1]byte
	QPNum              uint32
	_                  [4]byte
}

// RDMAUDParam is struct rdma_ud_param (rdma/rdma_cma.h, rdma-core v65).
type RDMAUDParam struct {
	_              structs.HostLayout
	PrivateData    uintptr
	PrivateDataLen uint8
	_              [7]byte
	AHAttr         AHAttr
	QPNum          uint32
	QKey           uint32
}

// RDMACMEvent is struct rdma_cm_event (rdma/rdma_cma.h, rdma-core v65). Param is a union of
// RDMAUDParam, RDMAConnParam and a __u64, depending on the event.
type RDMACMEvent struct {
	_        structs.HostLayout
	ID       uintptr
	ListenID uintptr
	Event    uint32
	Status   int32
	Param    RDMAUDParam
}

// RDMAAddrinfo is struct rdma_addrinfo (rdma/rdma_cma.h, rdma-core v65).
type RDMAAddrinfo struct {
	_              structs.HostLayout
	AIFlags        int32
	AIFamily       int32
	AIQPType       int32
	AIPortSpace    int32
	AISrcLen       uint32
	AIDstLen       uint32
	AISrcAddr      uintptr
	AIDstAddr      uintptr
	AISrcCanonname uintptr
	AIDstCanonname uintptr
	AIRouteLen     uint64
	AIRoute        uintptr
	AIConnectLen   uint64
	AIConnect      uintptr
	AINext         uintptr
}

// RDMAJoinMCAttrEx is struct rdma_cm_join_mc_attr_ex (rdma/rdma_cma.h, rdma-core v65).
type RDMAJoinMCAttrEx struct {
	_         structs.HostLayout
	CompMask  uint32
	JoinFlags uint32
	Addr      uintptr
}

// SockaddrIB is struct sockaddr_ib (infiniband/ib.h, rdma-core v65).
type SockaddrIB struct {
	_           structs.HostLayout
	SIBFamily   uint16
	SIBPKey     Be16
	SIBFlowinfo Be32
	SIBAddr     GID
	SIBSID      Be64
	SIBSIDMask  Be64
	SIBScopeID  uint64
}

// PathRecord is struct ibv_path_record (infiniband/sa.h, rdma-core v65).
type PathRecord struct {
	_                 structs.HostLayout
	ServiceID         Be64
	DGID              GID
	SGID              GID
	DLID              Be16
	SLID              Be16
	FlowlabelHoplimit Be32
	Tclass            uint8
	ReversibleNumpath uint8
	PKey              Be16
	QosclassSL        Be16
	MTU               uint8
	Rate              uint8
	Packetlifetime    uint8
	Preference        uint8
	_                 [6]byte
}

// PathData is struct ibv_path_data (infiniband/sa.h, rdma-core v65).
type PathData struct {
	_     structs.HostLayout
	Flags uint32
	_     [4]byte
	Path  PathRecord
}

// SAPathRec is struct ibv_sa_path_rec (infiniband/sa.h, rdma-core v65).
type SAPathRec struct {
	_                      structs.HostLayout
	_                      [0]uint64 // the alignment of union ibv_gid
	DGID                   GID
	SGID                   GID
	DLID                   Be16
	SLID                   Be16
	RawTraffic             int32
	FlowLabel              Be32
	HopLimit               uint8
	TrafficClass           uint8
	_                      [2]byte
	Reversible             int32
	NumbPath               uint8
	_                      [1]byte
	PKey                   Be16
	SL                     uint8
	MTUSelector            uint8
	MTU                    uint8
	RateSelector           uint8
	Rate                   uint8
	PacketLifeTimeSelector uint8
	PacketLifeTime         uint8
	Preference             uint8
}

// Constants of rdma/rdma_cma.h, rdma-core v65.
const (
	RDMA_CM_EVENT_ADDR_RESOLVED     = 0
	RDMA_CM_EVENT_ADDR_ERROR        = 1
	RDMA_CM_EVENT_ROUTE_RESOLVED    = 2
	RDMA_CM_EVENT_ROUTE_ERROR       = 3
	RDMA_CM_EVENT_CONNECT_REQUEST   = 4
	RDMA_CM_EVENT_CONNECT_RESPONSE  = 5
	RDMA_CM_EVENT_CONNECT_ERROR     = 6
	RDMA_CM_EVENT_UNREACHABLE       = 7
	RDMA_CM_EVENT_REJECTED          = 8
	RDMA_CM_EVENT_ESTABLISHED       = 9
	RDMA_CM_EVENT_DISCONNECTED      = 10
	RDMA_CM_EVENT_DEVICE_REMOVAL    = 11
	RDMA_CM_EVENT_MULTICAST_JOIN    = 12
	RDMA_CM_EVENT_MULTICAST_ERROR   = 13
	RDMA_CM_EVENT_ADDR_CHANGE       = 14
	RDMA_CM_EVENT_TIMEWAIT_EXIT     = 15
	RDMA_CM_EVENT_ADDRINFO_RESOLVED = 16
	RDMA_CM_EVENT_ADDRINFO_ERROR    = 17
	RDMA_CM_EVENT_USER              = 18
	RDMA_CM_EVENT_INTERNAL          = 19

	RDMA_PS_IPOIB = 2
	RDMA_PS_TCP   = 262
	RDMA_PS_UDP   = 273
	RDMA_PS_IB    = 319

	RDMA_MAX_RESP_RES   = 255
	RDMA_MAX_INIT_DEPTH = 255
	RDMA_UDP_QKEY       = 0x01234567

	RDMA_CM_JOIN_MC_ATTR_ADDRESS    = 1
	RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS = 2

	RDMA_MC_JOIN_FLAG_FULLMEMBER          = 0
	RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER = 1

	RDMA_OPTION_ID             = 0
	RDMA_OPTION_IB             = 1
	RDMA_OPTION_ID_TOS         = 0
	RDMA_OPTION_ID_REUSEADDR   = 1
	RDMA_OPTION_ID_AFONLY      = 2
	RDMA_OPTION_ID_ACK_TIMEOUT = 3
	RDMA_OPTION_IB_PATH        = 1

	RAI_PASSIVE     = 0x01
	RAI_NUMERICHOST = 0x02
	RAI_NOROUTE     = 0x04
	RAI_FAMILY      = 0x08
	RAI_SA          = 0x10
	RAI_DNS         = 0x20
)
