package rdmacm

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// ConnParam holds the parameters of a connection: those given to Connect and Accept, or the peer's
// in an event. In fields where 0 selects a default, ibv.Zero is a real 0. In an event, 0 is 0.
//
// C: struct rdma_conn_param.
type ConnParam struct {
	// PrivateData is sent to the peer, whose event holds it padded with zeros to the transport's
	// full size: see PortSpace.ConnectDataLimit.
	PrivateData []byte

	ResponderResources uint8 // outstanding reads and atomics of the peer; 0: what both devices support
	InitiatorDepth     uint8 // outstanding reads and atomics to the peer; 0: what both devices support
	FlowControl        bool  // hardware flow control
	RetryCount         uint8 // of a lost packet, at most 7; 0 means 7; not used by Accept

	// RNRRetryCount is how often this side repeats a send for which the peer has no receive posted.
	// 0 means 7, as in librdmacm, and 7 means forever: such a send waits, without completion or
	// error, until the peer posts a receive or the connection ends. With 1 to 6, or ibv.Zero for no
	// retry, it ends with ibv.WCRNRRetryExcErr.
	RNRRetryCount uint8

	// Access has the operations that the peer may do through a QP that BringUp makes ready. It is not sent to the peer.
	// 0 permits all: writes, and reads and atomics unless ResponderResources is ibv.Zero. To access memory, the peer
	// also needs the rkey of an MR registered with that access. ibv.NoRemoteAccess permits sends only. A QP of
	// ID.CreateQP always permits all.
	Access ibv.AccessFlags

	// SRQ and QPN describe the caller's QP. They are not used with ID.CreateQP.
	SRQ bool
	QPN uint32 // 24 bits
}

// maxRetry is the largest retry count: the field has three bits.
const maxRetry = 7

const maxQPN = 1<<24 - 1

// check rejects values that no device accepts or that the wire format cannot hold.
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
	if p.QPN > maxQPN {
		errs = append(errs, &ibv.LimitError{What: "qpn", Asked: uint64(p.QPN), Limit: maxQPN, Where: "a 24-bit field"})
	}
	if remote := p.Access &^ (ibv.NoRemoteAccess | ibv.LocalWrite); p.Access&ibv.NoRemoteAccess != 0 && remote != 0 {
		errs = append(errs, &ibv.ArgError{Arg: "Access", Got: p.Access.String(),
			Want: "NoRemoteAccess alone, or flags without it"})
	}
	return errors.Join(errs...)
}

// toC converts all but the private data.
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

// UDParam is the destination of datagrams to a peer or a multicast group.
//
// C: struct rdma_ud_param.
type UDParam struct {
	AH   ibv.AHAttr // for PD.CreateAH
	QPN  uint32     // 0xffffff for a group
	QKey uint32
}
