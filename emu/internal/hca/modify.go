//go:build linux

package hca

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// masks are the attributes that a transition needs and those that it accepts as well. The state itself is always
// accepted.
type masks struct{ need, may AttrMask }

type transition struct{ from, to QPState }

const (
	path    = AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN
	inPort  = AttrPKeyIndex | AttrPort | AttrAccess
	turned  = AttrAltPath | AttrAccess | AttrPKeyIndex
	again   = AttrCurState | AttrAltPath | AttrAccess | AttrPathMigState
	retried = AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrSQPSN | AttrMaxRdAtomic
	drained = AttrPort | AttrAV | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic | AttrMaxDestRdAtomic |
		AttrAltPath | AttrAccess | AttrPKeyIndex | AttrMinRNRTimer | AttrPathMigState
)

// transitions is the state diagram of the InfiniBand specification, 10.3.1, with the attributes of its tables 92 to 98.
// RESET and ERR can be reached from all states but RESET itself, without attributes.
var transitions = map[QPType]map[transition]masks{
	UD: {
		{Reset, Init}: {AttrPKeyIndex | AttrPort | AttrQKey, 0},
		{Init, Init}:  {0, AttrPKeyIndex | AttrPort | AttrQKey},
		{Init, RTR}:   {0, AttrPKeyIndex | AttrQKey},
		{RTR, RTS}:    {AttrSQPSN, AttrCurState | AttrQKey},
		{RTS, RTS}:    {0, AttrCurState | AttrQKey},
		{RTS, SQD}:    {0, AttrSQDNotify},
		{SQD, RTS}:    {0, AttrCurState | AttrQKey},
		{SQD, SQD}:    {0, AttrPKeyIndex | AttrQKey},
		{SQE, RTS}:    {0, AttrCurState | AttrQKey},
	},
	UC: {
		{Reset, Init}: {inPort, 0},
		{Init, Init}:  {0, inPort},
		{Init, RTR}:   {path, turned},
		{RTR, RTS}:    {AttrSQPSN, again},
		{RTS, RTS}:    {0, again},
		{RTS, SQD}:    {0, AttrSQDNotify},
		{SQD, RTS}:    {0, again},
		{SQD, SQD}:    {0, AttrAV | turned | AttrPathMigState},
		{SQE, RTS}:    {0, AttrCurState | AttrAccess},
	},
	RC: {
		{Reset, Init}: {inPort, 0},
		{Init, Init}:  {0, inPort},
		{Init, RTR}:   {path | AttrMaxDestRdAtomic | AttrMinRNRTimer, turned},
		{RTR, RTS}:    {retried, again | AttrMinRNRTimer},
		{RTS, RTS}:    {0, again | AttrMinRNRTimer},
		{RTS, SQD}:    {0, AttrSQDNotify},
		{SQD, RTS}:    {0, again | AttrMinRNRTimer},
		{SQD, SQD}:    {0, drained},
	},
	RawPacket: {
		{Reset, Init}: {AttrPort, 0},
		{Init, Init}:  {0, 0},
		{Init, RTR}:   {0, 0},
		{RTR, RTS}:    {0, AttrRateLimit},
		{RTS, RTS}:    {0, AttrRateLimit},
		{RTS, SQD}:    {0, 0},
		{SQD, RTS}:    {0, 0},
		{SQD, SQD}:    {0, 0},
		{SQE, RTS}:    {0, 0},
	},
	XRCSend: {
		{Reset, Init}: {inPort, 0},
		{Init, Init}:  {0, inPort},
		{Init, RTR}:   {path, turned},
		{RTR, RTS}:    {retried, again},
		{RTS, RTS}:    {0, again},
		{RTS, SQD}:    {0, AttrSQDNotify},
		{SQD, RTS}:    {0, again},
		{SQD, SQD}:    {0, drained &^ (AttrMaxDestRdAtomic | AttrMinRNRTimer)},
	},
	XRCRecv: {
		{Reset, Init}: {inPort, 0},
		{Init, Init}:  {0, inPort},
		{Init, RTR}:   {path | AttrMaxDestRdAtomic | AttrMinRNRTimer, turned},
		{RTR, RTS}:    {AttrTimeout | AttrSQPSN, again | AttrMinRNRTimer},
		{RTS, RTS}:    {0, again | AttrMinRNRTimer},
		{RTS, SQD}:    {0, AttrSQDNotify},
		{SQD, RTS}:    {0, again | AttrMinRNRTimer},
		{SQD, SQD}:    {0, drained &^ (AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic)},
	},
}

// legal reports whether the mask is right for a transition. C: ib_modify_qp_is_ok.
func legal(t QPType, from, to QPState, mask AttrMask) bool {
	if mask&AttrCurState != 0 && from != RTR && from != RTS && from != SQD && from != SQE {
		return false
	}
	m, ok := transitions[t][transition{from, to}]
	// the kernel has one diagram for all types, and lists UD's attributes for each of its arrows
	_, valid := transitions[UD][transition{from, to}]
	switch {
	case ok, valid:
	case to == Reset:
	case to == Err && from != Reset:
	default:
		return false
	}
	return mask&m.need == m.need && mask&^(m.need|m.may|AttrState) == 0
}

// ModifyQP changes a QP's attributes and, with AttrState, its state to next.
func (c *Context) ModifyQP(handle uint32, attr *QPAttr, mask AttrMask, next QPState) unix.Errno {
	qp, e := c.QP(handle)
	if e != 0 {
		return e
	}
	from := qp.State
	if mask&AttrCurState != 0 {
		from = attr.CurState
	}
	to := from
	if mask&AttrState != 0 {
		to = next
	}
	if dc := dcTransitions[qp.Type]; dc != nil && !dcLegal(dc, from, to, mask) ||
		dc == nil && !legal(qp.Type, from, to, mask) {
		return unix.EINVAL
	}
	if e := qp.check(attr, mask); e != 0 {
		return e
	}
	if qp.State == Reset && to == Reset {
		return 0
	}
	if to == Reset {
		c.Device.Fabric.Engine.QPLeaves(qp)
	}
	was := qp.State
	if to == Reset {
		qp.Attr = QPAttr{}
	}
	if qp.Type == DCT && to == RTR && !c.Device.number(qp) {
		return unix.ENOMEM
	}
	qp.Attr.take(attr, mask)
	qp.State = to
	c.Device.Fabric.Engine.QPModified(qp, was, to)
	return 0
}

// check looks at the values.
func (qp *QP) check(a *QPAttr, mask AttrMask) unix.Errno {
	d := qp.Context.Device
	port := d.port(qp.Attr.Port)
	if mask&AttrPort != 0 {
		if port = d.port(a.Port); port == nil {
			return unix.EINVAL
		}
	}
	if port == nil {
		port = d.Ports[0]
	}
	rd := uint8(min(d.Config.Limits.MaxRdAtom, 255))
	switch {
	case mask&AttrPKeyIndex != 0 && int(a.PKeyIndex) >= len(port.Config.PKeys),
		mask&AttrPathMTU != 0 && (a.PathMTU < 1 || a.PathMTU > 5 || int(a.PathMTU) > int(port.Config.ActiveMTU)),
		mask&AttrMaxRdAtomic != 0 && a.MaxRdAtomic > rd,
		mask&AttrMaxDestRdAtomic != 0 && a.MaxDestRdAtomic > rd,
		mask&AttrTimeout != 0 && a.Timeout > 31,
		mask&AttrRetryCnt != 0 && a.RetryCnt > 7,
		mask&AttrRNRRetry != 0 && a.RNRRetry > 7,
		mask&AttrMinRNRTimer != 0 && a.MinRNRTimer > 31,
		mask&AttrDestQPN != 0 && a.DestQPN > 0xffffff:
		return unix.EINVAL
	case d.Config.Limits.MaxAtomic == 0 && qp.wantsAtomics(a, mask):
		return unix.EOPNOTSUPP
	case mask&AttrAltPath != 0 && port.Config.LinkLayer == config.Ethernet:
		return unix.EINVAL // RoCE has no alternate paths
	}
	if mask&AttrAltPath != 0 {
		if a.AltAH.Port == 0 {
			a.AltAH.Port = a.AltPort
		}
		if e := d.checkAH(&a.AltAH); e != 0 {
			return e
		}
	}
	if mask&AttrAV != 0 {
		if a.AH.Port == 0 {
			a.AH.Port = uint8(port.Number)
		}
		if e := d.checkAH(&a.AH); e != 0 {
			return e
		}
		if qp.Type.connected() {
			if e := d.resolve(&a.AH); e != 0 {
				return e
			}
		}
		if a.AH.StaticRate == 1 || a.AH.StaticRate > mostStaticRate {
			return unix.EINVAL
		}
	}
	return 0
}

// wantsAtomics reports whether a change lets peers use atomics. C: set_qpc_atomic_flags.
func (qp *QP) wantsAtomics(a *QPAttr, mask AttrMask) bool {
	access, depth := qp.Attr.Access, qp.Attr.MaxDestRdAtomic
	if mask&AttrAccess != 0 {
		access = a.Access
	}
	if mask&AttrMaxDestRdAtomic != 0 {
		depth = a.MaxDestRdAtomic
	}
	return mask&(AttrAccess|AttrMaxDestRdAtomic) != 0 && access&AccessRemoteAtomic != 0 && depth > 0
}

// mostStaticRate is the last static rate that mlx5's driver takes. C: IB_RATE_800_GBPS.
const mostStaticRate = 23

// take copies the attributes of the mask.
func (q *QPAttr) take(a *QPAttr, mask AttrMask) {
	for _, f := range []struct {
		bit  AttrMask
		copy func()
	}{
		{AttrSQDNotify, func() { q.SQDNotify = a.SQDNotify }},
		{AttrAccess, func() { q.Access = a.Access }},
		{AttrPKeyIndex, func() { q.PKeyIndex = a.PKeyIndex }},
		{AttrPort, func() { q.Port = a.Port }},
		{AttrQKey, func() { q.QKey = a.QKey }},
		{AttrAV, func() { q.AH = a.AH }},
		{AttrPathMTU, func() { q.PathMTU = a.PathMTU }},
		{AttrTimeout, func() { q.Timeout = a.Timeout }},
		{AttrRetryCnt, func() { q.RetryCnt = a.RetryCnt }},
		{AttrRNRRetry, func() { q.RNRRetry = a.RNRRetry }},
		{AttrRQPSN, func() { q.RQPSN = a.RQPSN & 0xffffff }},
		{AttrMaxRdAtomic, func() { q.MaxRdAtomic = a.MaxRdAtomic }},
		{AttrAltPath, func() {
			q.AltAH, q.AltPKeyIndex, q.AltPort, q.AltTimeout = a.AltAH, a.AltPKeyIndex, a.AltPort, a.AltTimeout
		}},
		{AttrMinRNRTimer, func() { q.MinRNRTimer = a.MinRNRTimer }},
		{AttrSQPSN, func() { q.SQPSN = a.SQPSN & 0xffffff }},
		{AttrMaxDestRdAtomic, func() { q.MaxDestRdAtomic = a.MaxDestRdAtomic }},
		{AttrPathMigState, func() { q.PathMigState = a.PathMigState }},
		{AttrDestQPN, func() { q.DestQPN = a.DestQPN }},
	} {
		if mask&f.bit != 0 {
			f.copy()
		}
	}
}

// ForceError moves the QP to ERR by itself, as an adapter does.
func (qp *QP) ForceError() {
	if qp.State == Err || qp.State == Reset {
		return
	}
	was := qp.State
	qp.State = Err
	qp.Context.Device.Fabric.Engine.QPModified(qp, was, Err)
}
