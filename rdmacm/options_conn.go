package rdmacm

import (
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// Options are the choices of Dial, Listen and Request.Accept. The zero value is
// the default.
type Options struct {
	// PortSpace is TCP, reliable connections, by default; UDP is for datagrams.
	PortSpace PortSpace

	// PrivateData goes to the peer with the request, or with the answer to one.
	PrivateData []byte

	// PD of the QP: nil makes one for each connection. It may be of a Context of
	// ibv.Open, or of Devices, for the device that the address leads to.
	PD *ibv.PD
	// SendCQ and RecvCQ, of the PD's Context: nil makes one CQ for both, for each
	// connection, with CQ's choices and room for all that the QP can complete.
	SendCQ, RecvCQ *ibv.CQ
	CQ             *ibv.CQOptions
	// QP are the sizes of the QP, and an SRQ. Its type is that of the port space.
	QP ibv.QPOptions

	// Prepare runs when the QP is there, and before the peer can send: the place to
	// post receives. What it makes goes with Conn.OnClose. An error ends the
	// connection.
	Prepare func(*Conn) error

	ResponderResources uint8 // see ConnParam
	InitiatorDepth     uint8
	RetryCount         uint8
	RNRRetryCount      uint8

	TOS        uint8 // type of service; 0: the system's
	AckTimeout uint8 // of the QP, 4.096 µs·2^n, at most 31; 0: the path's
	ReuseAddr  bool
	AFOnly     bool // a listener on [::] takes no IPv4

	// LocalAddr is where Dial comes from; zero lets the kernel choose.
	LocalAddr netip.AddrPort
	// Timeout bounds the whole of Dial and of Request.Accept, beside their contexts;
	// 0 means 30 s.
	Timeout time.Duration
	// Backlog is how many requests, and how many connections that nobody has taken
	// yet, a Listener keeps; it refuses more. 0 means 1024.
	Backlog int
}

const (
	defaultTimeout = 30 * time.Second
	defaultBacklog = 1024
	resolveTimeout = 5 * time.Second // of the kernel; it tries again by itself until then
)

func (o *Options) portSpace() PortSpace {
	if o.PortSpace == 0 {
		return TCP
	}
	return o.PortSpace
}

func (o *Options) timeout() time.Duration {
	if o.Timeout <= 0 {
		return defaultTimeout
	}
	return o.Timeout
}

func (o *Options) backlog() int {
	if o.Backlog <= 0 {
		return defaultBacklog
	}
	return o.Backlog
}

// apply sets the options of an ID.
func (o *Options) apply(id *ID) error {
	if o.TOS != 0 {
		if err := id.SetTOS(o.TOS); err != nil {
			return err
		}
	}
	if o.AckTimeout != 0 {
		if err := id.SetAckTimeout(o.AckTimeout); err != nil {
			return err
		}
	}
	if o.ReuseAddr {
		if err := id.SetReuseAddr(true); err != nil {
			return err
		}
	}
	if o.AFOnly {
		return id.SetAFOnly(true)
	}
	return nil
}

// param are the parameters for Connect and Accept.
func (o *Options) param(qp *ibv.QP, srq bool) *ConnParam {
	return &ConnParam{
		PrivateData:        o.PrivateData,
		ResponderResources: o.ResponderResources,
		InitiatorDepth:     o.InitiatorDepth,
		RetryCount:         o.RetryCount,
		RNRRetryCount:      o.RNRRetryCount,
		SRQ:                srq,
		QPN:                qp.Num(),
	}
}
