package rdmacm

import (
	"errors"
	"fmt"

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
	RetryCount         uint8 // of a lost packet, at most 7; 0 means 7; not used by Accept

	// RNRRetryCount is how often this side tries a send again for which the other
	// has no receive posted; 0 means 7, which is for ever, as in librdmacm. Such a
	// send then waits, without a completion and without an error, until the peer
	// posts a receive or the connection ends. With 1 to 6, or ibv.Zero for not
	// again, it ends with ibv.WCRNRRetryExcErr.
	RNRRetryCount uint8

	// Access is what the peer may do through a QP that BringUp makes ready. It is
	// not sent. 0 is all: writes, and reads and atomics unless ResponderResources is
	// ibv.Zero; it then takes the rkey of an MR that was registered with the same
	// access to touch its memory. ibv.NoRemoteAccess leaves the peer nothing but
	// sends. With ID.CreateQP it is always all.
	Access ibv.AccessFlags

	// SRQ and QPN are of the QP that the caller brings; not used with ID.CreateQP.
	SRQ bool
	QPN uint32
}

// maxRetry is what the three bits of a retry count hold.
const maxRetry = 7

// check finds what no device takes, or what would be sent as something else.
func (p *ConnParam) check() error {
	var errs []error
	for _, f := range []struct {
		name string
		v    uint8
	}{{"RetryCount", p.RetryCount}, {"RNRRetryCount", p.RNRRetryCount}} {
		if f.v > maxRetry && f.v != ibv.Zero {
			errs = append(errs, &ibv.ArgError{Arg: f.name, Got: fmt.Sprint(f.v),
				Want: "1 to 7, 0 for the default or ibv.Zero"})
		}
	}
	if remote := p.Access &^ (ibv.NoRemoteAccess | ibv.LocalWrite); p.Access&ibv.NoRemoteAccess != 0 && remote != 0 {
		errs = append(errs, &ibv.ArgError{Arg: "Access", Got: p.Access.String(),
			Want: "NoRemoteAccess alone, or flags without it"})
	}
	return errors.Join(errs...)
}

// toC leaves out the private data.
func (p *ConnParam) toC() abi.RDMAConnParam {
	c := abi.RDMAConnParam{
		ResponderResources: verbs.OrZero(p.ResponderResources, abi.RDMA_MAX_RESP_RES),
		InitiatorDepth:     verbs.OrZero(p.InitiatorDepth, abi.RDMA_MAX_INIT_DEPTH),
		RetryCount:         verbs.OrZero(p.RetryCount, maxRetry),
		RNRRetryCount:      verbs.OrZero(p.RNRRetryCount, maxRetry),
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
