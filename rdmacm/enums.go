package rdmacm

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

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
