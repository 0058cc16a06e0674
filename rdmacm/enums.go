package rdmacm

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// PortSpace is a space of port numbers. It determines the kind of connection.
//
// C: enum rdma_port_space.
type PortSpace uint32

// Port spaces. PortSpaceIB is for InfiniBand addresses and QPs of any type.
const (
	PortSpaceIPoIB PortSpace = abi.RDMA_PS_IPOIB
	PortSpaceTCP   PortSpace = abi.RDMA_PS_TCP // reliable connections: RC
	PortSpaceUDP   PortSpace = abi.RDMA_PS_UDP // datagrams: UD
	PortSpaceIB    PortSpace = abi.RDMA_PS_IB
)

// String names the port space.
func (p PortSpace) String() string {
	switch p {
	case PortSpaceIPoIB:
		return "IPoIB"
	case PortSpaceTCP:
		return "TCP"
	case PortSpaceUDP:
		return "UDP"
	case PortSpaceIB:
		return "IB"
	}
	return fmt.Sprintf("PortSpace(%d)", uint32(p))
}

func (p PortSpace) datagram() bool { return p == PortSpaceUDP || p == PortSpaceIPoIB }

// EventType is the type of an event.
//
// C: enum rdma_cm_event_type.
type EventType uint32

// Event types.
const (
	EventAddrResolved     EventType = abi.RDMA_CM_EVENT_ADDR_RESOLVED
	EventAddrError        EventType = abi.RDMA_CM_EVENT_ADDR_ERROR
	EventRouteResolved    EventType = abi.RDMA_CM_EVENT_ROUTE_RESOLVED
	EventRouteError       EventType = abi.RDMA_CM_EVENT_ROUTE_ERROR
	EventConnectRequest   EventType = abi.RDMA_CM_EVENT_CONNECT_REQUEST
	EventConnectResponse  EventType = abi.RDMA_CM_EVENT_CONNECT_RESPONSE
	EventConnectError     EventType = abi.RDMA_CM_EVENT_CONNECT_ERROR
	EventUnreachable      EventType = abi.RDMA_CM_EVENT_UNREACHABLE
	EventRejected         EventType = abi.RDMA_CM_EVENT_REJECTED
	EventEstablished      EventType = abi.RDMA_CM_EVENT_ESTABLISHED
	EventDisconnected     EventType = abi.RDMA_CM_EVENT_DISCONNECTED
	EventDeviceRemoval    EventType = abi.RDMA_CM_EVENT_DEVICE_REMOVAL
	EventMulticastJoin    EventType = abi.RDMA_CM_EVENT_MULTICAST_JOIN
	EventMulticastError   EventType = abi.RDMA_CM_EVENT_MULTICAST_ERROR
	EventAddrChange       EventType = abi.RDMA_CM_EVENT_ADDR_CHANGE
	EventTimewaitExit     EventType = abi.RDMA_CM_EVENT_TIMEWAIT_EXIT
	EventAddrInfoResolved EventType = abi.RDMA_CM_EVENT_ADDRINFO_RESOLVED
	EventAddrInfoError    EventType = abi.RDMA_CM_EVENT_ADDRINFO_ERROR
	EventUser             EventType = abi.RDMA_CM_EVENT_USER
	eventInternal         EventType = abi.RDMA_CM_EVENT_INTERNAL
)

var eventNames = [...]string{
	EventAddrResolved:     "address resolved",
	EventAddrError:        "address error",
	EventRouteResolved:    "route resolved",
	EventRouteError:       "route error",
	EventConnectRequest:   "connect request",
	EventConnectResponse:  "connect response",
	EventConnectError:     "connect error",
	EventUnreachable:      "unreachable",
	EventRejected:         "rejected",
	EventEstablished:      "established",
	EventDisconnected:     "disconnected",
	EventDeviceRemoval:    "device removal",
	EventMulticastJoin:    "multicast join",
	EventMulticastError:   "multicast error",
	EventAddrChange:       "address change",
	EventTimewaitExit:     "timewait exit",
	EventAddrInfoResolved: "address info resolved",
	EventAddrInfoError:    "address info error",
	EventUser:             "user",
	eventInternal:         "internal",
}

// String names the event in words.
func (e EventType) String() string {
	if int(e) < len(eventNames) {
		return eventNames[e]
	}
	return fmt.Sprintf("EventType(%d)", uint32(e))
}

// RejectReason is why a connection was refused: a REJ code of the InfiniBand specification, chapter
// 12. iWARP has none: there it is RejectConsumer or, if nobody listens, RejectInvalidServiceID.
type RejectReason uint32

// Reject reasons.
const (
	RejectNoQP                 RejectReason = 1
	RejectNoEEC                RejectReason = 2
	RejectNoResources          RejectReason = 3
	RejectTimeout              RejectReason = 4
	RejectUnsupported          RejectReason = 5
	RejectInvalidCommID        RejectReason = 6
	RejectInvalidCommInstance  RejectReason = 7
	RejectInvalidServiceID     RejectReason = 8
	RejectInvalidTransportType RejectReason = 9
	RejectStaleConn            RejectReason = 10
	RejectRDCNotExist          RejectReason = 11
	RejectInvalidGID           RejectReason = 12
	RejectInvalidLID           RejectReason = 13
	RejectInvalidSL            RejectReason = 14
	RejectInvalidTrafficClass  RejectReason = 15
	RejectInvalidHopLimit      RejectReason = 16
	RejectInvalidPacketRate    RejectReason = 17
	RejectInvalidAltGID        RejectReason = 18
	RejectInvalidAltLID        RejectReason = 19
	RejectInvalidAltSL         RejectReason = 20
	RejectInvalidAltTraffic    RejectReason = 21
	RejectInvalidAltHopLimit   RejectReason = 22
	RejectInvalidAltRate       RejectReason = 23
	RejectPortCMRedirect       RejectReason = 24
	RejectPortRedirect         RejectReason = 25
	RejectInvalidMTU           RejectReason = 26
	RejectInsufficientRespRes  RejectReason = 27
	RejectConsumer             RejectReason = 28
	RejectInvalidRNRRetry      RejectReason = 29
	RejectDuplicateCommID      RejectReason = 30
	RejectInvalidClassVersion  RejectReason = 31
	RejectInvalidFlowLabel     RejectReason = 32
	RejectInvalidAltFlowLabel  RejectReason = 33
	RejectVendorOption         RejectReason = 35
)

var rejectTexts = map[RejectReason][2]string{
	RejectNoQP:        {"no QP", "the peer has no queue pairs left"},
	RejectNoEEC:       {"no EEC", "the peer has no end-to-end context left"},
	RejectNoResources: {"no resources", "the peer is out of memory or another resource"},
	RejectTimeout: {"timeout", "the peer did not get our message in time, or gave up: its process may have " +
		"ended"},
	RejectUnsupported:          {"unsupported request", "the peer does not support the request"},
	RejectInvalidCommID:        {"invalid communication ID", "the peer has forgotten this connection"},
	RejectInvalidCommInstance:  {"invalid communication instance", "the peer has forgotten this connection"},
	RejectInvalidServiceID:     {"invalid service ID", "nobody listens on that port in that port space"},
	RejectInvalidTransportType: {"invalid transport type", "the peer wants another type of queue pair"},
	RejectStaleConn: {"stale connection", "the peer still knows an older connection of this queue pair " +
		"number; try again"},
	RejectRDCNotExist:         {"no RDC", "the reliable datagram channel does not exist"},
	RejectInvalidGID:          {"invalid GID", "the peer does not have that address"},
	RejectInvalidLID:          {"invalid LID", "the peer does not have that LID"},
	RejectInvalidSL:           {"invalid SL", "the peer refuses the service level"},
	RejectInvalidTrafficClass: {"invalid traffic class", "the peer refuses the traffic class"},
	RejectInvalidHopLimit:     {"invalid hop limit", "the peer refuses the hop limit"},
	RejectInvalidPacketRate:   {"invalid packet rate", "the peer refuses the packet rate"},
	RejectInvalidAltGID:       {"invalid alternate GID", "the peer refuses the alternate path"},
	RejectInvalidAltLID:       {"invalid alternate LID", "the peer refuses the alternate path"},
	RejectInvalidAltSL:        {"invalid alternate SL", "the peer refuses the alternate path"},
	RejectInvalidAltTraffic:   {"invalid alternate traffic class", "the peer refuses the alternate path"},
	RejectInvalidAltHopLimit:  {"invalid alternate hop limit", "the peer refuses the alternate path"},
	RejectInvalidAltRate:      {"invalid alternate packet rate", "the peer refuses the alternate path"},
	RejectPortCMRedirect:      {"port and CM redirection", "the peer sends us to another port"},
	RejectPortRedirect:        {"port redirection", "the peer sends us to another port"},
	RejectInvalidMTU:          {"invalid MTU", "the peer does not support the path MTU"},
	RejectInsufficientRespRes: {"insufficient responder resources",
		"the peer refuses the initiator depth: ask for less"},
	RejectConsumer: {"refused by the peer's program", "the peer's program refused, its backlog was full, " +
		"or it ended: see the private data"},
	RejectInvalidRNRRetry:     {"invalid RNR retry count", "the peer refuses the RNR retry count"},
	RejectDuplicateCommID:     {"duplicate local communication ID", "the peer has another connection with this ID"},
	RejectInvalidClassVersion: {"invalid class version", "the peer speaks another version"},
	RejectInvalidFlowLabel:    {"invalid flow label", "the peer refuses the flow label"},
	RejectInvalidAltFlowLabel: {"invalid alternate flow label", "the peer refuses the alternate path"},
	RejectVendorOption: {"vendor option not supported",
		"the peer refuses the enhanced connection options (ECE)"},
}

// String names the reason.
func (r RejectReason) String() string {
	if t, ok := rejectTexts[r]; ok {
		return t[0]
	}
	return fmt.Sprintf("RejectReason(%d)", uint32(r))
}

// Explain returns what the reason means for the side that was refused.
func (r RejectReason) Explain() string {
	if t, ok := rejectTexts[r]; ok {
		return t[1]
	}
	return "not a reason of the InfiniBand specification"
}

// SIDRStatus is the result of a request in a datagram port space.
type SIDRStatus uint32

// Statuses of datagram requests.
const (
	SIDRSuccess     SIDRStatus = 0
	SIDRUnsupported SIDRStatus = 1 // nobody listens on that port
	SIDRReject      SIDRStatus = 2 // the peer's program refused
	SIDRNoQP        SIDRStatus = 3
	SIDRRedirect    SIDRStatus = 4
	SIDRVersion     SIDRStatus = 5
)

// String names the status.
func (s SIDRStatus) String() string {
	switch s {
	case SIDRSuccess:
		return "success"
	case SIDRUnsupported:
		return "invalid service ID"
	case SIDRReject:
		return "refused by the peer's program"
	case SIDRNoQP:
		return "no QP"
	case SIDRRedirect:
		return "redirection"
	case SIDRVersion:
		return "unsupported version"
	}
	return fmt.Sprintf("SIDRStatus(%d)", uint32(s))
}

// reason returns the equivalent RejectReason.
func (s SIDRStatus) reason() RejectReason {
	switch s {
	case SIDRUnsupported:
		return RejectInvalidServiceID
	case SIDRReject:
		return RejectConsumer
	case SIDRNoQP:
		return RejectNoQP
	case SIDRRedirect:
		return RejectPortRedirect
	case SIDRVersion:
		return RejectInvalidClassVersion
	}
	return RejectUnsupported
}

// AddrInfoFlags are flags for [GetAddrInfo].
type AddrInfoFlags uint32

// Flags of GetAddrInfo.
const (
	AddrInfoPassive     AddrInfoFlags = abi.RAI_PASSIVE     // an address to listen on
	AddrInfoNumericHost AddrInfoFlags = abi.RAI_NUMERICHOST // no names, hence no DNS query
	AddrInfoNoRoute     AddrInfoFlags = abi.RAI_NOROUTE     // do not look for a route
	AddrInfoFamily      AddrInfoFlags = abi.RAI_FAMILY      // Hints.Family is the address family
	AddrInfoResolveSA   AddrInfoFlags = abi.RAI_SA          // ask the subnet administrator (v60)
	AddrInfoResolveDNS  AddrInfoFlags = abi.RAI_DNS         // ask DNS (v60)
)

// String joins the flags with "|".
func (f AddrInfoFlags) String() string {
	names := []string{"Passive", "NumericHost", "NoRoute", "Family", "ResolveSA", "ResolveDNS"}
	var parts []string
	for i, n := range names {
		if f&(1<<i) != 0 {
			parts = append(parts, n)
		}
	}
	if rest := f >> len(names); rest != 0 {
		parts = append(parts, fmt.Sprintf("%#x", uint32(rest)<<len(names)))
	}
	if parts == nil {
		return "0"
	}
	return strings.Join(parts, "|")
}

// JoinFlags are the ways to join a multicast group.
type JoinFlags uint32

// Join flags.
const (
	JoinFullMember JoinFlags = abi.RDMA_MC_JOIN_FLAG_FULLMEMBER          // send and receive
	JoinSendOnly   JoinFlags = abi.RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER // send only
)

// String names the flag.
func (f JoinFlags) String() string {
	switch f {
	case JoinFullMember:
		return "FullMember"
	case JoinSendOnly:
		return "SendOnly"
	}
	return "JoinFlags(" + strconv.Itoa(int(f)) + ")"
}

// UDPQKey is the Q_Key of the port spaces UDP and IPoIB.
const UDPQKey = abi.RDMA_UDP_QKEY

func qpType(n int32) ibv.QPType { return ibv.QPType(n) }
