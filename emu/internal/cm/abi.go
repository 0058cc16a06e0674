//go:build linux

package cm

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
