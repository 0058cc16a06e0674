package rdmacm

import (
	"fmt"

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

// Explain returns what the reason means for the side that was refused.
func (r RejectReason) Explain() string {
	if r.known() {
		return rejectReasonTexts[r]
	}
	return "not a reason of the InfiniBand specification"
}

func (r RejectReason) known() bool {
	return int64(r) < int64(len(rejectReasonTexts)) && rejectReasonTexts[r] != ""
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

// UDPQKey is the Q_Key of the port spaces UDP and IPoIB.
const UDPQKey = abi.RDMA_UDP_QKEY

func qpType(n int32) ibv.QPType { return ibv.QPType(n) }
