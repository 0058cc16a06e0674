package ibv

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
)

// BestGID lets Endpoint choose the GID: of an active port, RoCE v2 before v1,
// IPv4-mapped before global IPv6 before link-local.
const BestGID = -1

// Zero is a real 0 in the fields of ConnectOptions whose zero value is a
// default.
const Zero = 255

// DefaultQKey is the Q_Key of UD QPs that choose none, the one that most
// programs use.
const DefaultQKey = 0x11111111

// ConnectOptions are the choices of Init and Connect. The zero value is the
// default.
type ConnectOptions struct {
	Local           *Endpoint   // what the peer was told, where it differs from what Endpoint returned
	MTU             MTU         // 0: the smaller one of both ends
	Access          AccessFlags // what the peer may do; 0: all that the transport and the device can
	PKeyIndex       uint16
	Timeout         uint8 // ACK timeout, 4.096 µs·2^n; 0 means 14, 67 ms
	RetryCount      uint8 // 0 means 7
	RNRRetry        uint8 // 0 means 7, for ever
	MinRNRTimer     uint8 // 0 means 12, 0.64 ms
	MaxRdAtomic     uint8 // reads and atomics outstanding to the peer; 0: what both ends can
	MaxDestRdAtomic uint8 // and from the peer; 0: what the device can
	SL              uint8
	TrafficClass    uint8
	HopLimit        uint8 // 0 means 64
	FlowLabel       uint32
	QKey            uint32 // UD; 0: that of the Endpoint
}

// orZero is v, or def for 0, or 0 for Zero.
func orZero(v, def uint8) uint8 {
	switch v {
	case 0:
		return def
	case Zero:
		return 0
	}
	return v
}

// Endpoint describes the QP for a peer: send it over, by any means, and give
// the peer's to Connect. It chooses a random PSN and remembers port and GID
// index for Connect; the QP is not changed. gidIndex may be BestGID.
func (qp *QP) Endpoint(port uint8, gidIndex int) (Endpoint, error) {
	const op = "endpoint"
	qp.ctrlMu.Lock()
	defer qp.ctrlMu.Unlock()
	if err := qp.enter(op); err != nil {
		return Endpoint{}, err
	}
	defer qp.leave()
	c := qp.pd.ctx
	pa, err := c.QueryPort(port)
	if err != nil {
		return Endpoint{}, err
	}
	if gidIndex == BestGID {
		if gidIndex, err = c.bestGID(port, pa); err != nil {
			return Endpoint{}, &OpError{Op: op, Object: qp.name, Err: err}
		}
	}
	if gidIndex < 0 || gidIndex >= max(pa.GIDTableLen, 1) || gidIndex > 255 {
		return Endpoint{}, &OpError{Op: op, Object: qp.name, Err: &LimitError{What: "gid index", Asked: uint64(gidIndex), Limit: uint64(min(pa.GIDTableLen, 256) - 1), Where: fmt.Sprintf("%s port %d", c.Name(), port)}}
	}
	gid, err := c.QueryGID(port, gidIndex)
	if err != nil {
		return Endpoint{}, err
	}
	if gid.IsZero() && pa.LinkLayer == LinkEthernet {
		return Endpoint{}, &OpError{Op: op, Object: qp.name, Err: &ArgError{Arg: "gid index", Got: fmt.Sprintf("%d, an empty entry", gidIndex), Want: "one that show_gids lists, or BestGID"}}
	}
	psn, err := randomPSN()
	if err != nil {
		return Endpoint{}, err
	}
	e := Endpoint{
		Type:            qp.typ,
		QPN:             qp.num,
		PSN:             psn,
		LID:             pa.LID,
		GID:             gid,
		MTU:             pa.ActiveMTU,
		MaxRdAtomic:     uint8(min(c.attr.MaxQPInitRdAtom, 255)),
		MaxDestRdAtomic: uint8(min(c.attr.MaxQPRdAtom, 255)),
	}
	if e.MTU.Bytes() == 0 { // one that this release does not know
		e.MTU = 0
	}
	if qp.typ == UD {
		e.QKey = DefaultQKey
	}
	local := e
	qp.local, qp.port, qp.sgid = &local, port, gidIndex
	return e, nil
}

func randomPSN() (uint32, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(b[:]) & 0xffffff, nil
}

// Init moves the QP to INIT, where receives can be posted before the peer knows
// that the QP exists. Connect does it too, when it was not done. Endpoint comes
// first; opt may be nil and should be the one that Connect gets.
func (qp *QP) Init(opt *ConnectOptions) error {
	qp.ctrlMu.Lock()
	defer qp.ctrlMu.Unlock()
	return qp.bringUp("init qp", nil, opt)
}

// Connect brings the QP up to RTS: INIT, RTR with the peer's endpoint, RTS.
// Endpoint comes first; opt may be nil. A UD or raw packet QP has no peer: its
// Endpoint is not looked at. Steps that the QP has behind it are left out, so a
// failed Connect may be repeated.
//
// An error names the step, and what to change: see Modify.
func (qp *QP) Connect(peer Endpoint, opt *ConnectOptions) error {
	qp.ctrlMu.Lock()
	defer qp.ctrlMu.Unlock()
	return qp.bringUp("connect qp", &peer, opt)
}

func (qp *QP) bringUp(op string, peer *Endpoint, opt *ConnectOptions) error {
	if err := qp.enter(op); err != nil {
		return err
	}
	defer qp.leave()
	if opt == nil {
		opt = &ConnectOptions{}
	}
	fail := func(err error) error { return &OpError{Op: op, Object: qp.name, Err: err} }
	local := qp.local
	if local == nil {
		return fail(errNoEndpoint)
	}
	if opt.Local != nil {
		local = opt.Local
	}
	if local.PSN > 0xffffff {
		return fail(&LimitError{What: "psn", Asked: uint64(local.PSN), Limit: 0xffffff, Where: "a 24-bit field"})
	}
	connected := qp.typ != UD && qp.typ != RawPacket
	if peer != nil && connected {
		if peer.Type == 0 { // made by hand
			peer.Type = qp.typ
		}
		if err := peer.Validate(); err != nil {
			return fail(fmt.Errorf("the peer's endpoint: %w", err))
		}
		if peer.Type != qp.typ {
			return fail(&ArgError{Arg: "the peer's QP type", Got: peer.Type.String(), Want: qp.typ.String()})
		}
	}
	step := func(attr *QPAttr, mask QPAttrMask) error {
		if err := qp.modify(attr, mask|MaskState); err != nil {
			return fmt.Errorf("%s: to %v: %w", op, attr.State, err)
		}
		return nil
	}
	if qp.loadState() == StateReset {
		if err := step(qp.initAttr(local, opt)); err != nil {
			return err
		}
	}
	if peer == nil {
		return nil
	}
	if qp.loadState() == StateInit {
		attr, mask, err := qp.rtrAttr(local, peer, opt)
		if err != nil {
			return fail(err)
		}
		if err := step(attr, mask); err != nil {
			return err
		}
	}
	if s := qp.loadState(); s != StateRTR {
		return fail(&StateError{Op: op, State: s, Need: "RESET, INIT or RTR; Modify to RESET first"})
	}
	return step(qp.rtsAttr(local, peer, opt))
}

func (qp *QP) initAttr(local *Endpoint, opt *ConnectOptions) (*QPAttr, QPAttrMask) {
	a := &QPAttr{State: StateInit, Port: qp.port, PKeyIndex: opt.PKeyIndex, QKey: qp.qkey(local, opt), Access: opt.Access}
	switch qp.typ {
	case UD:
		return a, MaskPKeyIndex | MaskPort | MaskQKey
	case RawPacket:
		return a, MaskPort
	}
	if a.Access == 0 {
		a.Access = LocalWrite | RemoteWrite
		if qp.typ == RC {
			a.Access |= RemoteRead
			if qp.pd.ctx.attr.AtomicCap != AtomicNone {
				a.Access |= RemoteAtomic
			}
		}
	}
	return a, MaskPKeyIndex | MaskPort | MaskAccessFlags
}

func (qp *QP) qkey(local *Endpoint, opt *ConnectOptions) uint32 {
	if opt.QKey != 0 {
		return opt.QKey
	}
	return local.QKey
}

func (qp *QP) rtrAttr(local, peer *Endpoint, opt *ConnectOptions) (*QPAttr, QPAttrMask, error) {
	a := &QPAttr{State: StateRTR}
	if qp.typ == UD || qp.typ == RawPacket {
		return a, 0, nil
	}
	pa, err := qp.pd.ctx.QueryPort(qp.port)
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
	a.DestQPN = peer.QPN
	a.RQPSN = peer.PSN
	a.AV = qp.addressOf(peer, pa, opt)
	mask := MaskAV | MaskPathMTU | MaskDestQPN | MaskRQPSN
	if qp.typ != UC {
		a.MaxDestRdAtomic = opt.MaxDestRdAtomic
		if a.MaxDestRdAtomic == 0 {
			a.MaxDestRdAtomic = local.MaxDestRdAtomic
		}
		a.MinRNRTimer = orZero(opt.MinRNRTimer, 12)
		mask |= MaskMaxDestRdAtomic | MaskMinRNRTimer
	}
	return a, mask, nil
}

// addressOf is the address vector of a peer. On Ethernet packets are routed by
// GID; on InfiniBand by LID, with a GRH only where the peer is in another
// subnet or has no LID.
func (qp *QP) addressOf(peer *Endpoint, pa *PortAttr, opt *ConnectOptions) AHAttr {
	av := AHAttr{Port: qp.port, DLID: peer.LID, SL: opt.SL}
	subnetLocal := peer.LID != 0 && (peer.GID.IsZero() || [8]byte(peer.GID[:8]) == [8]byte(qp.local.GID[:8]))
	if pa.LinkLayer == LinkEthernet || !subnetLocal {
		av.Global = true
		av.DGID = peer.GID
		av.SGIDIndex = uint8(qp.sgid)
		av.HopLimit = opt.HopLimit
		if av.HopLimit == 0 {
			av.HopLimit = 64
		}
		av.TrafficClass = opt.TrafficClass
		av.FlowLabel = opt.FlowLabel
	}
	return av
}

// Address is the way to a peer as Connect takes it, for PD.CreateAH: a UD QP has
// no peer of its own, and needs an AH for each. Endpoint comes first; of opt,
// which may be nil, SL, TrafficClass, HopLimit and FlowLabel count.
func (qp *QP) Address(peer Endpoint, opt *ConnectOptions) (*AHAttr, error) {
	const op = "address of peer"
	qp.ctrlMu.Lock()
	defer qp.ctrlMu.Unlock()
	if err := qp.enter(op); err != nil {
		return nil, err
	}
	defer qp.leave()
	if opt == nil {
		opt = &ConnectOptions{}
	}
	if qp.local == nil {
		return nil, &OpError{Op: op, Object: qp.name, Err: errNoEndpoint}
	}
	pa, err := qp.pd.ctx.QueryPort(qp.port)
	if err != nil {
		return nil, err
	}
	av := qp.addressOf(&peer, pa, opt)
	return &av, nil
}

var errNoEndpoint = errors.New("call Endpoint first: it settles the port and the GID index")

func (qp *QP) rtsAttr(local, peer *Endpoint, opt *ConnectOptions) (*QPAttr, QPAttrMask) {
	a := &QPAttr{State: StateRTS, SQPSN: local.PSN}
	switch qp.typ {
	case RawPacket:
		return a, 0
	case UD, UC:
		return a, MaskSQPSN
	}
	a.Timeout = orZero(opt.Timeout, 14)
	a.RetryCnt = orZero(opt.RetryCount, 7)
	a.RNRRetry = orZero(opt.RNRRetry, 7)
	a.MaxRdAtomic = opt.MaxRdAtomic
	if a.MaxRdAtomic == 0 {
		a.MaxRdAtomic = local.MaxRdAtomic
		if peer.MaxDestRdAtomic != 0 {
			a.MaxRdAtomic = min(a.MaxRdAtomic, peer.MaxDestRdAtomic)
		}
	}
	return a, MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskSQPSN | MaskMaxQPRdAtomic
}
