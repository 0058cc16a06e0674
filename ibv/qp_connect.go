package ibv

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// BestGID makes Endpoint choose the GID: RoCE v2 before v1, and IPv4-mapped before global IPv6
// before link-local. The port must be active.
const BestGID = -1

// DefaultQKey is the Q_Key of UD QPs for which none is chosen. Most programs use this value.
const DefaultQKey = 0x11111111

// ConnectOptions are the options of Init and Connect. A zero field selects the default. Numbers whose
// default is not 0 can be None.
type ConnectOptions struct {
	Local *Endpoint // what the peer was given, if it differs from what Endpoint returned
	MTU   MTU       // 0 means the smaller of both ends

	// Access has the operations that the peer may do through the QP. 0 allows everything that the transport and the
	// device support: writes and, on RC, reads and atomics. To access memory the peer also needs the rkey of an MR
	// registered with the same access. AccessNone allows nothing but sends.
	Access AccessFlags

	PKeyIndex uint16 // of the entry of the port's P_Key table; Device.PKeyIndex finds it

	// AckTimeout is how long the QP waits for an acknowledgement before it resends a packet. It
	// is rounded up to 4.096 µs·2^n, n from 0 to 31: TimeCode(n).Duration() is exact. 0 means
	// 67 ms; with None nothing is resent.
	AckTimeout time.Duration
	RetryCount int // at most 7; 0 means 7

	// RNRRetry is how often a send is retried when the peer has no receive posted. 0 means 7,
	// which is without limit: the send then waits, without a completion or an error, until the
	// peer posts a receive. With 1 to 6, or with None for no retry, it can fail with
	// WCRNRRetryExcErr.
	RNRRetry int

	// RNRTimer is how long the peer must wait before such a retry. It is rounded up to one of
	// the 32 times from 0.01 ms to 655.36 ms; RNRTimer(n).Duration() is exact. 0 means 0.64 ms.
	RNRTimer time.Duration

	MaxRdAtomic     int    // reads and atomics outstanding to the peer; 0 means what both ends support, the most
	MaxDestRdAtomic int    // reads and atomics outstanding from the peer; 0 means what the device supports
	SL              uint8  // service level, 4 bits
	TrafficClass    uint8  // on RoCE v2 the DSCP, shifted left by 2, and the bits of ECN
	HopLimit        int    // at most 255; 0 means 64
	FlowLabel       uint32 // 20 bits
	QKey            uint32 // UD; 0 means the Q_Key of the Endpoint
}

// check reports options that are invalid on any device.
func (o *ConnectOptions) check() error {
	errs := []error{
		checkOptional("RetryCount", o.RetryCount, 3),
		checkOptional("RNRRetry", o.RNRRetry, 3),
		checkOptional("MaxRdAtomic", o.MaxRdAtomic, 8),
		checkOptional("MaxDestRdAtomic", o.MaxDestRdAtomic, 8),
		checkOptional("HopLimit", o.HopLimit, 8),
		checkFields(field{"SL", uint32(o.SL), 4}, field{"FlowLabel", o.FlowLabel, 20}),
		o.Access.checkPeer(),
	}
	if o.MTU != 0 && o.MTU.Bytes() == 0 {
		errs = append(errs, &ArgError{Arg: "MTU", Got: fmt.Sprintf("MTU(%d)", uint32(o.MTU)),
			Want: "one of MTU256 to MTU4096, or 0"})
	}
	_, err := ackTimeout(o.AckTimeout, 0)
	errs = append(errs, err)
	_, err = rnrTimer(o.RNRTimer, 0)
	return errors.Join(append(errs, err)...)
}

// Endpoint describes the QP for a peer. Send it to the peer by any means, and give the peer's
// own to Connect. Endpoint records port and gidIndex for Connect; it does not change the QP.
// The PSN is random, and stays the same until the QP is reset. If gidIndex is BestGID, a port
// that is not active is refused with a *PortError; with an explicit index any port is accepted.
func (qp *QP) Endpoint(port uint8, gidIndex int) (Endpoint, error) {
	const op = "endpoint"
	qp.conn.mu.Lock()
	defer qp.conn.mu.Unlock()
	if err := qp.enterStates(op); err != nil {
		return Endpoint{}, err
	}
	defer qp.leave()
	d := qp.dev
	pa, err := d.QueryPort(port)
	if err != nil {
		return Endpoint{}, err
	}
	if gidIndex == BestGID {
		if !pa.State.active() {
			return Endpoint{}, &OpError{Op: op, Object: qp.name, Err: &PortError{Device: d.Name(), Port: port,
				State: pa.State}}
		}
		best, err := d.bestGID(port, pa, func(GIDEntry) bool { return true })
		if err != nil {
			return Endpoint{}, &OpError{Op: op, Object: qp.name, Err: err}
		}
		gidIndex = best.Index
	}
	index := limit{gidEntry, gidIndex, min(max(pa.GIDTableLen, 1), 256) - 1} // address vectors have 8 bits for it
	where := fmt.Sprintf("%s port %d", d.Name(), port)
	if err := fitInt(where, index); err != nil {
		return Endpoint{}, &OpError{Op: op, Object: qp.name, Err: err}
	}
	if gidIndex > index.most {
		return Endpoint{}, &OpError{Op: op, Object: qp.name, Err: index.error(where)}
	}
	gid, typ, err := d.gidOf(port, gidIndex, pa.LinkLayer)
	if err != nil {
		return Endpoint{}, err
	}
	if gid.IsZero() && pa.GRHRequired() {
		return Endpoint{}, &OpError{Op: op, Object: qp.name, Err: &ArgError{Arg: "gid index",
			Got: fmt.Sprintf("%d, an empty entry", gidIndex), Want: "an entry that show_gids lists, or BestGID"}}
	}
	psn, err := qp.conn.drawPSN()
	if err != nil {
		return Endpoint{}, err
	}
	e := Endpoint{
		Type:            qp.typ,
		QPN:             qp.Num(),
		PSN:             psn,
		LID:             pa.LID,
		GID:             gid,
		GIDType:         typ,
		MTU:             pa.ActiveMTU,
		MaxRdAtomic:     uint8(min(d.attr.MaxQPInitRdAtom, 255)),
		MaxDestRdAtomic: uint8(min(d.attr.MaxQPRdAtom, 255)),
		GRH:             pa.LinkLayer != LinkEthernet && pa.GRHRequired(),
	}
	if e.MTU.Bytes() == 0 { // a value that this release does not know
		e.MTU = 0
	}
	if qp.typ.datagrams() {
		e.QKey = DefaultQKey
	}
	local := e
	qp.conn.local, qp.conn.port, qp.conn.sgid = &local, port, gidIndex
	return e, nil
}

// psnDrawn marks that a 24-bit PSN has been drawn, which may be 0.
const psnDrawn = 1 << 31

// drawPSN draws the QP's PSN once: a second call of Endpoint must not break a connection to a
// peer that has the first result.
// Preconditions: qp.conn.mu is held.
func (c *connector) drawPSN() (uint32, error) {
	if p := c.psn.Load(); p != 0 {
		return p &^ psnDrawn, nil
	}
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, err
	}
	p := binary.BigEndian.Uint32(b[:]) & max24
	c.psn.Store(p | psnDrawn)
	return p, nil
}

// Init moves the QP to INIT, where it can post receives before the peer knows that it exists.
// If Init was not called, Connect does the same. Call Endpoint first; opt may be nil. Init uses
// Access, PKeyIndex and QKey of opt. They remain in force after Connect, unless its options set
// them.
func (qp *QP) Init(opt *ConnectOptions) error {
	qp.conn.mu.Lock()
	defer qp.conn.mu.Unlock()
	return qp.conn.bringUp("init qp", nil, opt)
}

// Connect brings the QP to RTS: INIT, RTR with the peer's endpoint, RTS. Call Endpoint first;
// opt may be nil. For a UD, raw packet or DC QP, which has no peer, Connect ignores the Endpoint. It
// brings a DCT to RTR, where it gets its number; call Endpoint again for peers.
// Connect skips transitions that are already done, so a failed Connect may be repeated.
//
// An error names the transition and what to change: see Modify. If the GID, the LID or the MTU has changed since
// Endpoint, it is a *StaleEndpointError, and the QP has not moved. A peer whose GID is of another version of RoCE, or
// that answers fewer reads than MaxRdAtomic, is refused.
func (qp *QP) Connect(peer Endpoint, opt *ConnectOptions) error {
	qp.conn.mu.Lock()
	defer qp.conn.mu.Unlock()
	return qp.conn.bringUp("connect qp", &peer, opt)
}

func (c *connector) bringUp(op string, peer *Endpoint, opt *ConnectOptions) error {
	qp := c.qp
	if err := qp.enterStates(op); err != nil {
		return err
	}
	defer qp.leave()
	if opt == nil {
		opt = &ConnectOptions{}
	}
	fail := func(err error) error { return &OpError{Op: op, Object: qp.name, Err: err} }
	if err := opt.check(); err != nil {
		return fail(err)
	}
	local, err := c.told(opt)
	if err == nil && peer != nil {
		err = c.checkPeer(local, peer, opt)
	}
	if err != nil {
		return fail(err)
	}
	step := func(attr *QPAttr, mask QPAttrMask) error {
		if err := qp.modify(attr, mask|MaskState); err != nil {
			return fmt.Errorf("%s: to %v: %w", op, attr.State, err)
		}
		return nil
	}
	late := qp.loadState() != StateReset
	if !late {
		if err := step(c.initAttr(local, opt)); err != nil {
			return err
		}
	}
	if peer == nil {
		return nil
	}
	if qp.loadState() == StateInit {
		attr, mask, err := c.rtrAttr(local, peer, opt)
		if err != nil {
			return fail(err)
		}
		if late {
			mask |= c.lateAttr(attr, opt)
		}
		if err := step(attr, mask); err != nil {
			return err
		}
		late = false
	}
	if qp.typ == DCT && qp.loadState() == StateRTR {
		return nil
	}
	if s := qp.loadState(); s != StateRTR {
		return fail(&StateError{Op: op, State: s, Need: "RESET, INIT or RTR; Modify to RESET first"})
	}
	attr, mask := c.rtsAttr(local, peer, opt)
	if late {
		mask |= c.lateAttr(attr, opt)
	}
	return step(attr, mask)
}

// lateAttr adds to a later transition the options of INIT, for a QP that was moved to INIT with
// other options.
func (c *connector) lateAttr(a *QPAttr, opt *ConnectOptions) (mask QPAttrMask) {
	qp := c.qp
	switch {
	case qp.typ == RawPacket, qp.typ == DCT:
		return 0
	case qp.typ.datagrams() && opt.QKey != 0:
		a.QKey, mask = opt.QKey, MaskQKey
	case !qp.typ.datagrams() && qp.typ != DCI && opt.Access != 0:
		a.Access, mask = opt.Access, MaskAccessFlags
	}
	if a.State == StateRTR && opt.PKeyIndex != 0 {
		a.PKeyIndex, mask = opt.PKeyIndex, mask|MaskPKeyIndex
	}
	return mask
}

func (c *connector) initAttr(local *Endpoint, opt *ConnectOptions) (*QPAttr, QPAttrMask) {
	a := &QPAttr{State: StateInit, Port: c.port, PKeyIndex: opt.PKeyIndex, QKey: c.qkey(local, opt),
		Access: opt.Access}
	switch c.qp.typ {
	case UD, SRD:
		return a, MaskPKeyIndex | MaskPort | MaskQKey
	case RawPacket:
		return a, MaskPort
	case DCI:
		return a, MaskPKeyIndex | MaskPort
	}
	a.Access = c.access(opt)
	return a, MaskPKeyIndex | MaskPort | MaskAccessFlags
}

// access returns what the peer may do.
func (c *connector) access(opt *ConnectOptions) AccessFlags {
	qp := c.qp
	access := opt.Access
	if access == 0 {
		access = LocalWrite | RemoteWrite
		if qp.typ == RC || qp.typ == XRCRecv || qp.typ == DCT {
			access |= RemoteRead
			if qp.dev.attr.AtomicCap != AtomicNone {
				access |= RemoteAtomic
			}
		}
	}
	return access
}

func (c *connector) qkey(local *Endpoint, opt *ConnectOptions) uint32 {
	if opt.QKey != 0 {
		return opt.QKey
	}
	return local.QKey
}

func (c *connector) rtrAttr(local, peer *Endpoint, opt *ConnectOptions) (*QPAttr, QPAttrMask, error) {
	qp := c.qp
	a := &QPAttr{State: StateRTR}
	if qp.typ.datagrams() || qp.typ == RawPacket {
		return a, 0, nil
	}
	pa, err := qp.dev.QueryPort(c.port)
	if err != nil {
		return nil, 0, err
	}
	a.PathMTU = opt.MTU
	if a.PathMTU == 0 {
		a.PathMTU = pa.ActiveMTU
		if peer.MTU != 0 {
			a.PathMTU = min(a.PathMTU, peer.MTU)
		}
	}
	switch qp.typ {
	case DCI:
		if !qp.make.Address {
			return a, MaskPathMTU, nil
		}
		a.AV, err = c.addressOf(local, pa, opt)
		return a, MaskPathMTU | MaskAV, err
	case DCT:
		a.AV, err = c.addressOf(local, pa, opt) // the port and the GID that it answers from
		a.MinRNRTimer, _ = rnrTimer(opt.RNRTimer, 12)
		return a, MaskPathMTU | MaskAV | MaskMinRNRTimer, err
	}
	a.DestQPN = peer.QPN
	a.RQPSN = peer.PSN
	if a.AV, err = c.addressOf(peer, pa, opt); err != nil {
		return nil, 0, err
	}
	mask := MaskAV | MaskPathMTU | MaskDestQPN | MaskRQPSN
	if qp.typ != UC && qp.typ != XRCSend {
		a.MaxDestRdAtomic = uint8(orDefault(opt.MaxDestRdAtomic, int(local.MaxDestRdAtomic)))
		a.MinRNRTimer, _ = rnrTimer(opt.RNRTimer, 12) // checked before
		mask |= MaskMaxDestRdAtomic | MaskMinRNRTimer
	}
	return a, mask, nil
}

// addressOf returns the address vector of a peer. On Ethernet packets are routed by GID, on InfiniBand by LID. There a
// GRH is used only if a port requires it, or if the peer is in another subnet or has no LID.
func (c *connector) addressOf(peer *Endpoint, pa *PortAttr, opt *ConnectOptions) (AHAttr, error) {
	av := AHAttr{Port: c.port, DLID: peer.LID, SL: opt.SL}
	subnetLocal := peer.LID != 0 && (peer.GID.IsZero() || [8]byte(peer.GID[:8]) == [8]byte(c.local.GID[:8]))
	if av.Global = pa.GRHRequired() || peer.GRH || !subnetLocal; av.Global {
		if peer.GID.IsZero() && pa.LinkLayer != LinkEthernet {
			return av, &ArgError{Arg: "the peer's GID", Got: "::", Want: fmt.Sprintf("the GID of its port: packets "+
				"between it and port %d of %s must have a GRH", c.port, c.qp.dev.Name())}
		}
		av.DGID = peer.GID
		av.SGIDIndex = uint8(c.sgid)
		av.HopLimit = uint8(orDefault(opt.HopLimit, 64))
		av.TrafficClass = opt.TrafficClass
		av.FlowLabel = opt.FlowLabel
	}
	return av, nil
}

// Address returns the address of a peer as Connect would use it, for PD.CreateAH: a UD QP needs
// an AH for each peer. Call Endpoint first. opt may be nil; Address uses its SL, TrafficClass,
// HopLimit and FlowLabel. Errors are those of Connect for GIDs.
func (qp *QP) Address(peer Endpoint, opt *ConnectOptions) (*AHAttr, error) {
	const op = "address of peer"
	qp.conn.mu.Lock()
	defer qp.conn.mu.Unlock()
	if err := qp.enter(op); err != nil {
		return nil, err
	}
	defer qp.leave()
	if opt == nil {
		opt = &ConnectOptions{}
	}
	if err := opt.check(); err != nil {
		return nil, &OpError{Op: op, Object: qp.name, Err: err}
	}
	if qp.conn.local == nil {
		return nil, &OpError{Op: op, Object: qp.name, Err: errNoEndpoint}
	}
	pa, err := qp.dev.QueryPort(qp.conn.port)
	if err != nil {
		return nil, err
	}
	av, err := qp.conn.addressOf(&peer, pa, opt)
	if err == nil && av.Global {
		err = qp.conn.checkGID(qp.conn.local, &peer, pa)
	}
	if err != nil {
		return nil, &OpError{Op: op, Object: qp.name, Err: err}
	}
	return &av, nil
}

func (c *connector) rtsAttr(local, peer *Endpoint, opt *ConnectOptions) (*QPAttr, QPAttrMask) {
	a := &QPAttr{State: StateRTS, SQPSN: local.PSN}
	switch c.qp.typ {
	case RawPacket:
		return a, 0
	case UD, SRD, UC:
		return a, MaskSQPSN
	}
	a.Timeout, _ = ackTimeout(opt.AckTimeout, 14) // checked before
	if c.qp.typ == XRCRecv {
		return a, MaskSQPSN | MaskTimeout
	}
	a.RetryCnt = uint8(orDefault(opt.RetryCount, 7))
	a.RNRRetry = uint8(orDefault(opt.RNRRetry, 7))
	both := local.MaxRdAtomic
	if peer.MaxDestRdAtomic != 0 { // known
		both = min(both, peer.MaxDestRdAtomic)
	}
	a.MaxRdAtomic = uint8(orDefault(opt.MaxRdAtomic, int(both)))
	return a, MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskSQPSN | MaskMaxQPRdAtomic
}
