package rdmacm

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// Options configures Dial, Listen and Request.Accept. The zero value selects the defaults.
type Options struct {
	// PortSpace is TCP (reliable connections) by default; UDP is for datagrams.
	PortSpace PortSpace

	// PrivateData is sent to the peer with the request or with the reply to it.
	PrivateData []byte

	// PD is the PD of the QP; nil creates one for each connection. Its Device, of ibv.Open or
	// Devices, must be the one that the address leads to.
	PD *ibv.PD
	// SendCQ and RecvCQ belong to the PD's Device. nil creates one CQ for both for each connection,
	// with the options of CQ and room for all completions of the QP.
	SendCQ, RecvCQ *ibv.CQ
	CQ             *ibv.CQOptions
	// QP holds the sizes of the QP, and an SRQ. The port space determines the type.
	QP ibv.QPOptions

	// Use runs once the device is known, which is not before the route is resolved, with a copy of
	// the options: the place to set PD, CQs and QP from what the program has on that device. An
	// error ends the connection.
	Use func(dev *ibv.Device, opt *Options) error

	// Prepare runs after the QP is created and before the peer can send: the place to post
	// receives. Use Conn.OnClose to free what it creates. An error ends the connection. Prepare
	// must not close the Listener, whose Close waits for it.
	Prepare func(*Conn) error

	// Confirm, of Dial, runs when the peer has accepted, before this side confirms the connection: the place to check
	// Conn.PrivateData. An error ends the handshake, so that the peer's Accept does not return the connection.
	Confirm func(*Conn) error

	// Failed runs if the handshake fails, with the reason, before the connection is closed: the place to undo what Use
	// and Prepare did while the QP, nil if it was not created, still exists. On the listening side ID.Reject tells the
	// peer why.
	//
	// Dial of a host name with several addresses may call Use, Prepare, Confirm and Failed once for each, with those of
	// one family at the same time as those of the other. DialAddr has one address.
	Failed func(*Conn, error)

	ResponderResources int // see ConnParam
	InitiatorDepth     int // see ConnParam
	RetryCount         int // see ConnParam
	RNRRetryCount      int // of the peer's sends; 0: they wait forever for a receive of this side; see ConnParam
	OwnRNRRetryCount   int // of this side's sends; 0: as the peer says; see ConnParam
	// Access has the operations that the peer may do through the QP. 0 permits all, ibv.AccessNone sends only; see
	// ConnParam.
	Access ibv.AccessFlags

	TOS uint8 // type of service; 0: the system's
	// AckTimeout is the QP's ACK timeout, rounded up as in ibv.ConnectOptions. 0 is the path's,
	// ibv.None none.
	AckTimeout time.Duration
	ReuseAddr  bool // see ID.SetReuseAddr
	AFOnly     bool // a listener on [::] refuses IPv4

	// LocalAddr is the source address of Dial; zero lets the kernel choose.
	LocalAddr netip.AddrPort
	// Timeout bounds all of Dial and of Request.Accept, in addition to their contexts. 0 means 30
	// s.
	Timeout time.Duration
	// Backlog is how many pending requests, and how many connections not yet accepted, a Listener
	// keeps. It refuses more. 0 means 1024; 65536 is the maximum.
	Backlog int
}

const (
	defaultTimeout = 30 * time.Second
	defaultBacklog = 1024
	maxBacklog     = 1 << 16
	resolveTimeout = 5 * time.Second // for the kernel, which retries until then
)

func (o *Options) portSpace() PortSpace   { return cmp.Or(o.PortSpace, PortSpaceTCP) }
func (o *Options) timeout() time.Duration { return cmp.Or(o.Timeout, defaultTimeout) }
func (o *Options) backlog() int           { return cmp.Or(o.Backlog, defaultBacklog) }

// check rejects options that no device supports.
func (o *Options) check() error {
	errs := []error{o.param(0, false).check()}
	switch o.PortSpace {
	case 0, PortSpaceTCP, PortSpaceUDP, PortSpaceIPoIB, PortSpaceIB:
	default:
		errs = append(errs, &ibv.ArgError{Arg: "PortSpace", Got: o.PortSpace.String(), Want: "TCP, UDP, IPoIB or IB"})
	}
	if o.Backlog < 0 || o.Backlog > maxBacklog {
		errs = append(errs, &ibv.ArgError{Arg: "Backlog", Got: fmt.Sprint(o.Backlog),
			Want: fmt.Sprintf("1 to %d, or 0 for the default", maxBacklog)})
	}
	if o.Timeout < 0 {
		errs = append(errs, &ibv.ArgError{Arg: "Timeout", Got: o.Timeout.String(),
			Want: "more than 0, or 0 for the default"})
	}
	if _, err := o.ackTimeout(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// apply sets the options on an ID.
func (o *Options) apply(id *ID) error {
	if o.TOS != 0 {
		if err := id.SetTOS(o.TOS); err != nil {
			return err
		}
	}
	if err := o.applyAckTimeout(id); err != nil {
		return err
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

func (o *Options) applyAckTimeout(id *ID) error {
	if o.AckTimeout == 0 {
		return nil
	}
	t, err := o.ackTimeout()
	if err != nil {
		return err
	}
	return id.SetAckTimeout(t)
}

func (o *Options) ackTimeout() (ibv.TimeCode, error) {
	if o.AckTimeout == 0 || o.AckTimeout == ibv.None {
		return 0, nil
	}
	t, ok := ibv.TimeCodeFromDuration(o.AckTimeout)
	if !ok {
		want := fmt.Sprintf("%v to %v, 0 for the path's or ibv.None", ibv.TimeCode(0).Duration(),
			ibv.TimeCode(31).Duration())
		return 0, &ibv.ArgError{Arg: "AckTimeout", Got: o.AckTimeout.String(), Want: want}
	}
	return t, nil
}

// param returns the parameters for Connect and Accept.
func (o *Options) param(qpn uint32, srq bool) *ConnParam {
	return &ConnParam{
		PrivateData:        o.PrivateData,
		ResponderResources: o.ResponderResources,
		InitiatorDepth:     o.InitiatorDepth,
		RetryCount:         o.RetryCount,
		RNRRetryCount:      o.RNRRetryCount,
		OwnRNRRetryCount:   o.OwnRNRRetryCount,
		Access:             o.Access,
		SRQ:                srq,
		QPN:                qpn,
	}
}
