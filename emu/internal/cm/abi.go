//go:build linux

package cm

import "github.com/pureverbs/pureverbs/emu/internal/uapi"

// Sizes and offsets of rdma/rdma_user_cm.h that the kernel compares lengths with.
const (
	headerSize     = 8
	maxPrivate     = 256
	eventRespMin   = 324 // without the padding and the ECE
	routeRespMin   = 200 // without ibdev_index
	addrRespMin    = 272
	connectMin     = 280 // without the ECE
	acceptMin      = 288
	pathRespHeader = 8
	pathRecordSize = 72
)

// Port spaces. C: enum rdma_ucm_port_space.
const (
	psIPoIB = 0x0002
	psIB    = 0x013f
	psTCP   = 0x0106
	psUDP   = 0x0111
)

// Events. C: enum rdma_cm_event_type.
const (
	evAddrResolved = iota
	evAddrError
	evRouteResolved
	evRouteError
	evConnectRequest
	evConnectResponse
	evConnectError
	evUnreachable
	evRejected
	evEstablished
	evDisconnected
	evDeviceRemoval
	evMulticastJoin
	evMulticastError
	evAddrChange
	evTimewaitExit
	evAddrinfoResolved
	evAddrinfoError
	evUser
	evInternal
)

var eventNames = [...]string{
	"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE",
	"CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL", "MULTICAST_JOIN",
	"MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT", "ADDRINFO_RESOLVED", "ADDRINFO_ERROR", "USER", "INTERNAL",
}

// Reasons of a REJ, and states of a SIDR answer.
const (
	rejTimeout          = 4
	rejInvalidServiceID = 8
	rejConsumer         = 28
	rejVendorOption     = 35

	sidrUnsupported = 1
	sidrReject      = 2
)

// Room for private data in the messages; a REQ and a SIDR REQ begin with the addresses.
const (
	addrHeader     = 36
	privateREQ     = 92 - addrHeader
	privateREP     = 196
	privateREJ     = 148
	privateSIDRREQ = 216 - addrHeader
	privateSIDRREP = 136
)

type (
	header struct {
		Cmd     uint32
		In, Out uint16
	}
	createID struct {
		UID, Response uint64
		PS            uint16
		QPType        uint8
		_             [5]uint8
	}
	destroyID struct {
		Response uint64
		ID, _    uint32
	}
	bindIP struct {
		Response uint64
		Addr     [28]byte
		ID       uint32
	}
	bind struct {
		ID             uint32
		Size, Reserved uint16
		Addr           [128]byte
	}
	resolveIP struct {
		Src, Dst    [28]byte
		ID, Timeout uint32
	}
	resolveAddr struct {
		ID, Timeout      uint32
		SrcSize, DstSize uint16
		Reserved         uint32
		Src, Dst         [128]byte
	}
	// resolveRoute, listen and notify are alike: a number follows the id.
	idAndNumber struct{ ID, Number uint32 }
	idOnly      struct{ ID uint32 }
	query       struct {
		Response   uint64
		ID, Option uint32
	}
	pathRec struct { // C: struct ib_user_path_rec; numbers of the wire are arrays
		DGID, SGID                                                      [16]byte
		DLID, SLID                                                      [2]byte
		RawTraffic                                                      uint32
		FlowLabel                                                       [4]byte
		Reversible, MTU                                                 uint32
		PKey                                                            [2]byte
		HopLimit, TrafficClass, NumbPath, SL, MTUSelector, RateSelector uint8
		Rate, PacketLifeTimeSelector, PacketLifeTime, Preference        uint8
	}
	queryRouteResp struct {
		NodeGUID       [8]byte
		Route          [2]pathRec
		Src, Dst       [28]byte
		NumPaths       uint32
		Port           uint8
		_              [3]uint8
		DeviceIndex, _ uint32
	}
	queryAddrResp struct {
		NodeGUID         [8]byte
		Port, _          uint8
		PKey             [2]byte
		SrcSize, DstSize uint16
		Src, Dst         [128]byte
		DeviceIndex, _   uint32
	}
	sockaddrIB struct {
		Family    uint16
		PKey      [2]byte
		FlowInfo  uint32
		Addr      [16]byte
		SID, Mask [8]byte
		Scope     uint64
	}
	connParam struct {
		QPNum, QKey                                                       uint32
		Private                                                           [maxPrivate]byte
		Len, SRQ, RespRes, InitDepth, FlowControl, Retry, RNRRetry, Valid uint8
	}
	udParam struct {
		QPNum, QKey uint32
		AH          uapi.AHAttr
		Private     [maxPrivate]byte
		Len         uint8
		_           [7]uint8
	}
	ece     struct{ VendorID, AttrMod uint32 }
	connect struct {
		Param connParam
		ID, _ uint32
		ECE   ece
	}
	accept struct {
		UID   uint64
		Param connParam
		ID, _ uint32
		ECE   ece
	}
	reject struct {
		ID          uint32
		Len, Reason uint8
		_           [2]uint8
		Private     [maxPrivate]byte
	}
	joinIP struct {
		Response, UID uint64
		Addr          [28]byte
		ID            uint32
	}
	join struct {
		Response, UID uint64
		ID            uint32
		Size, Flags   uint16
		Addr          [128]byte
	}
	getEvent  struct{ Response uint64 }
	eventResp struct {
		UID               uint64
		ID, Event, Status uint32
		Param             [304]byte // connParam or udParam
		_                 uint32
		ECE               ece
	}
	setOption struct {
		Value                uint64
		ID, Level, Name, Len uint32
	}
	migrateID struct {
		Response uint64
		ID, FD   uint32
	}
	writeEvent struct {
		ID, _, Event, Status uint32
		Param                [304]byte
	}
	qpAttr struct { // C: struct ib_uverbs_qp_attr
		Mask, State, CurState, PathMTU, PathMigState, QKey, RQPSN, SQPSN, DestQPN, Access uint32
		AH, AltAH                                                                         uapi.AHAttr
		Cap                                                                               uapi.QPCap
		PKeyIndex, AltPKeyIndex                                                           uint16
		SQDNotify, SQDraining, MaxRdAtomic, MaxDestRdAtomic, MinRNRTimer, Port, Timeout   uint8
		RetryCnt, RNRRetry, AltPort, AltTimeout                                           uint8
		_                                                                                 [5]uint8
	}
)
