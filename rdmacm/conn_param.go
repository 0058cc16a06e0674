package rdmacm

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// ConnParam are the parameters of a connection, given to Connect and Accept, or
// the peer's, in an event. Where 0 stands for a default, ibv.Zero is a real 0; in
// an event the numbers are plain.
//
// C: struct rdma_conn_param.
type ConnParam struct {
	// PrivateData goes to the peer's event. It sees it at its full size, filled up
	// with zeros: see PortSpace.ConnectDataLimit.
	PrivateData []byte

	ResponderResources uint8 // reads and atomics of the peer at a time; 0: what both devices can
	InitiatorDepth     uint8 // reads and atomics to the peer at a time; 0: what both devices can
	FlowControl        bool  // hardware flow control
	RetryCount         uint8 // of a lost packet, 1 to 7; 0 means 7; not used by Accept
	RNRRetryCount      uint8 // of a receiver that is not ready, 1 to 6, 7 is for ever; 0 means 7

	// SRQ and QPN are of the QP that the caller brings; not used with ID.CreateQP.
	SRQ bool
	QPN uint32
}

// Preconditions: private data is added by the caller.
func (p *ConnParam) toC() abi.RDMAConnParam {
	or := func(v, def uint8) uint8 {
		switch v {
		case 0:
			return def
		case ibv.Zero:
			return 0
		}
		return v
	}
	c := abi.RDMAConnParam{
		ResponderResources: or(p.ResponderResources, abi.RDMA_MAX_RESP_RES),
		InitiatorDepth:     or(p.InitiatorDepth, abi.RDMA_MAX_INIT_DEPTH),
		RetryCount:         or(p.RetryCount, 7),
		RNRRetryCount:      or(p.RNRRetryCount, 7),
		QPNum:              p.QPN,
	}
	if p.FlowControl {
		c.FlowControl = 1
	}
	if p.SRQ {
		c.SRQ = 1
	}
	return c
}

func (p *ConnParam) fromC(c *abi.RDMAConnParam) {
	*p = ConnParam{
		ResponderResources: c.ResponderResources,
		InitiatorDepth:     c.InitiatorDepth,
		FlowControl:        c.FlowControl != 0,
		RetryCount:         c.RetryCount,
		RNRRetryCount:      c.RNRRetryCount,
		SRQ:                c.SRQ != 0,
		QPN:                c.QPNum,
	}
}

// UDParam is where datagrams of a peer or a multicast group go.
//
// C: struct rdma_ud_param.
type UDParam struct {
	AH   ibv.AHAttr // for PD.CreateAH
	QPN  uint32     // 0xffffff for a group
	QKey uint32
}
