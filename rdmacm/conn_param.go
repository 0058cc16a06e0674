package rdmacm

import (
	"errors"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
)

// ConnParam holds the parameters of a connection: those given to Connect and Accept, or the peer's
// in an event. Numbers whose 0 selects a default can be ibv.None. In an event, 0 is 0.
//
// C: struct rdma_conn_param.
type ConnParam struct {
	// PrivateData is sent to the peer, whose event holds it padded with zeros to the transport's
	// full size: see PortSpace.ConnectDataLimit.
	PrivateData []byte

	// ResponderResources is how many reads and atomics of the peer this side executes at the same time, and
	// InitiatorDepth is how many this side has outstanding. 0 selects the most that both devices support. The peer may
	// lower both when it accepts. InitiatorDepth of Accept is at most that of the EventConnectRequest. The values in an
	// event are also of the side that gets it: ResponderResources is the peer's InitiatorDepth.
	ResponderResources int
	InitiatorDepth     int

	FlowControl bool // hardware flow control; the peer's program gets it, no QP does
	RetryCount  int  // how often both sides repeat a lost packet, at most 7; 0 means 7; not used by Accept

	// RNRRetryCount is how often the peer repeats a send for which this side has no receive posted: the peer's QP gets
	// it. 0 means 7, as in librdmacm, and 7 means forever: such a send waits, without completion or error, until this
	// side posts a receive or the connection ends. With 1 to 6, or ibv.None for no retry, it ends with
	// ibv.WCRNRRetryExcErr. In an event it is the peer's wish for the QP of the side that gets it.
	//
	// C: rdma_connect(3), rdma_accept(3).
	RNRRetryCount int

	// OwnRNRRetryCount is the count for sends of this side, in place of the peer's RNRRetryCount: of a QP that BringUp
	// makes ready. It is not sent to the peer. 0 keeps what the peer sent; 1 to 7 and ibv.None are as above. A QP of
	// ID.CreateQP always keeps what the peer sent.
	OwnRNRRetryCount int

	// Access has the operations that the peer may do through a QP that BringUp makes ready. It is not sent to the peer.
	// 0 permits all: writes, and reads and atomics unless ResponderResources is ibv.None. To access memory, the peer
	// also needs the rkey of an MR registered with that access. ibv.AccessNone permits sends only. A QP of
	// ID.CreateQP always permits all.
	Access ibv.AccessFlags

	// SRQ and QPN describe the caller's QP, in an event the peer's. They are not used with ID.CreateQP.
	SRQ bool
	QPN uint32 // 24 bits, not 0
}

const (
	maxRetry = 7   // the field has three bits
	maxReads = 254 // RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH are 255, and mean what both devices support
)

const maxQPN = 1<<24 - 1

// check rejects values that no device accepts or that the wire format cannot hold.
func (p *ConnParam) check() error {
	var errs []error
	for _, f := range []struct {
		name    string
		v, most int
	}{{"ResponderResources", p.ResponderResources, maxReads}, {"InitiatorDepth", p.InitiatorDepth, maxReads},
		{"RetryCount", p.RetryCount, maxRetry}, {"RNRRetryCount", p.RNRRetryCount, maxRetry},
		{"OwnRNRRetryCount", p.OwnRNRRetryCount, maxRetry}} {
		if f.v < ibv.None || f.v > f.most {
			errs = append(errs, &ibv.ArgError{Arg: f.name, Got: fmt.Sprint(f.v),
				Want: fmt.Sprintf("1 to %d, 0 for the default or ibv.None", f.most)})
		}
	}
	if p.QPN > maxQPN {
		errs = append(errs, &ibv.LimitError{What: "qpn", Asked: uint64(p.QPN), Limit: maxQPN, Where: "a 24-bit field"})
	}
	if remote := p.Access &^ (ibv.AccessNone | ibv.LocalWrite); p.Access&ibv.AccessNone != 0 && remote != 0 {
		errs = append(errs, &ibv.ArgError{Arg: "Access", Got: p.Access.String(),
			Want: "AccessNone alone, or flags without it"})
	}
	return errors.Join(errs...)
}

// toC converts all but the private data.
// Preconditions: p has been checked.
func (p *ConnParam) toC() abi.RDMAConnParam {
	c := abi.RDMAConnParam{
		ResponderResources: uint8(verbs.OrDefault(p.ResponderResources, abi.RDMA_MAX_RESP_RES)),
		InitiatorDepth:     uint8(verbs.OrDefault(p.InitiatorDepth, abi.RDMA_MAX_INIT_DEPTH)),
		RetryCount:         uint8(verbs.OrDefault(p.RetryCount, maxRetry)),
		RNRRetryCount:      uint8(verbs.OrDefault(p.RNRRetryCount, maxRetry)),
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
		ResponderResources: int(c.ResponderResources),
		InitiatorDepth:     int(c.InitiatorDepth),
		FlowControl:        c.FlowControl != 0,
		RetryCount:         int(c.RetryCount),
		RNRRetryCount:      int(c.RNRRetryCount),
		SRQ:                c.SRQ != 0,
		QPN:                c.QPNum,
	}
}

// UDParam is the destination of datagrams to a peer or a multicast group: its address, QP and Q_Key.
//
// C: struct rdma_ud_param.
type UDParam struct {
	AH   ibv.AHAttr // for PD.CreateAH
	QPN  uint32     // 0xffffff for a group
	QKey uint32
}
