package rdmacm

import "github.com/pureverbs/pureverbs/ibv"

// Sizes of private data on InfiniBand and RoCE. In requests of the IP port spaces the kernel uses
// 36 bytes for a header.
const (
	reqData     = 92
	repData     = 196
	rejData     = 148
	sidrReqData = 216
	sidrRepData = 136
	ipHeader    = 36
	iWARPData   = 251 // 512 in the standard, but siw's length is a byte, and counts four of its own (RFC 6581)
)

// ConnectDataLimit is how many bytes of private data a request can carry: 56 in
// TCP, 180 in UDP and IPoIB, 92 in the InfiniBand space.
func (p PortSpace) ConnectDataLimit() int {
	switch p {
	case PortSpaceUDP, PortSpaceIPoIB:
		return sidrReqData - ipHeader
	case PortSpaceIB:
		return reqData
	}
	return reqData - ipHeader
}

// AcceptDataLimit is how many bytes of private data an Accept can carry: 196, or 136 for datagrams.
func (p PortSpace) AcceptDataLimit() int {
	if p.datagram() {
		return sidrRepData
	}
	return repData
}

// RejectDataLimit is how many bytes of private data a Reject can carry: 148, or 136 for datagrams.
func (p PortSpace) RejectDataLimit() int {
	if p.datagram() {
		return sidrRepData
	}
	return rejData
}

// checkData returns a *PrivateDataError if data is too long for an operation.
func checkData(op string, p PortSpace, t ibv.TransportType, data []byte, limit int) error {
	if t == ibv.TransportIWARP {
		limit = iWARPData
	}
	if len(data) > limit {
		return &PrivateDataError{Op: op, Len: len(data), Limit: limit, PortSpace: p}
	}
	return nil
}
