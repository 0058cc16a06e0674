//go:build linux

package hca

import (
	"golang.org/x/sys/unix"
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
)

// transitions is the state diagram of the InfiniBand specification, 10.3.1, with the attributes of its tables 92 to 98,
// less what mlx5_ib has no command for: nothing leads to SQD, where a QP gets only by itself, and nothing takes a raw
// packet QP out of SQE. RESET can be reached from all states, and ERR from all but RESET, without attributes; not by a
// DCT.
var transitions = map[QPType]map[transition]masks{
	UD: {
		{Reset, Init}: {AttrPKeyIndex | AttrPort | AttrQKey, 0},
		{Init, Init}:  {0, AttrPKeyIndex | AttrPort | AttrQKey},
		{Init, RTR}:   {0, AttrPKeyIndex | AttrQKey},
		{RTR, RTS}:    {AttrSQPSN, AttrCurState | AttrQKey},
		{RTS, RTS}:    {0, AttrCurState | AttrQKey},
		{SQD, RTS}:    {0, AttrCurState | AttrQKey},
		{SQE, RTS}:    {0, AttrCurState | AttrQKey},
	},
	UC: {
		{Reset, Init}: {inPort, 0},
		{Init, Init}:  {0, inPort},
		{Init, RTR}:   {path, turned},
		{RTR, RTS}:    {AttrSQPSN, again},
		{RTS, RTS}:    {0, again},
		{SQD, RTS}:    {0, again},
		{SQE, RTS}:    {0, AttrCurState | AttrAccess},
	},
	RC: {
		{Reset, Init}: {inPort, 0},
		{Init, Init}:  {0, inPort},
		{Init, RTR}:   {path | AttrMaxDestRdAtomic | AttrMinRNRTimer, turned},
		{RTR, RTS}:    {retried, again | AttrMinRNRTimer},
		{RTS, RTS}:    {0, again | AttrMinRNRTimer},
		{SQD, RTS}:    {0, again | AttrMinRNRTimer},
		{SQE, RTS}:    {0, 0},
	},
	RawPacket: {
		{Reset, Init}: {AttrPort, 0},
		{Init, Init}:  {0, 0},
		{Init, RTR}:   {0, 0},
		{RTR, RTS}:    {0, 0},
		{RTS, RTS}:    {0, 0},
	},
	XRCSend: {
		{Reset, Init}: {inPort, 0},
		{Init, Init}:  {0, inPort},
		{Init, RTR}:   {path, turned},
		{RTR, RTS}:    {retried, again},
		{RTS, RTS}:    {0, again},
		{SQD, RTS}:    {0, again},
		{SQE, RTS}:    {0, 0},
	},
	XRCRecv: {
		{Reset, Init}: {inPort, 0},
		{Init, Init}:  {0, inPort},
		{Init, RTR}:   {path | AttrMaxDestRdAtomic | AttrMinRNRTimer, turned},
		{RTR, RTS}:    {AttrTimeout | AttrSQPSN, again | AttrMinRNRTimer},
		{RTS, RTS}:    {0, again | AttrMinRNRTimer},
		{SQD, RTS}:    {0, again | AttrMinRNRTimer},
		{SQE, RTS}:    {0, 0},
	},
	DCI: {
		{Reset, Init}: {AttrPKeyIndex | AttrPort, 0},
		{Init, Init}:  {0, AttrPKeyIndex | AttrPort},
		{Init, RTR}:   {AttrPathMTU, AttrPKeyIndex | AttrAV},
		{RTR, RTS}:    {retried, AttrMinRNRTimer},
		{RTS, RTS}:    {0, AttrMinRNRTimer},
	},
	DCT: { // it becomes real, with a number, in RTR, and changes no more
		{Reset, Init}: {inPort, 0},
		{Init, RTR}:   {AttrMinRNRTimer | AttrAV | AttrPathMTU, 0},
	},
}

// legal reports whether the mask is right for a transition. C: ib_modify_qp_is_ok, and optab of mlx5_ib; for DC
// modify_dci_qp_is_ok and mlx5_ib_modify_dct.
func legal(t QPType, from, to QPState, mask AttrMask) bool {
	m, ok := transitions[t][transition{from, to}]
	ok = ok || t != DCT && (to == Reset || to == Err && from != Reset)
	switch named := from == RTR || from == RTS || from == SQD || from == SQE; {
	case mask&AttrCurState != 0 && !named:
		return false
	case t == DCI || t == DCT:
		ok = ok && mask&AttrState != 0
	default:
		mask &^= AttrRateLimit
	}
	return ok && mask&m.need == m.need && mask&^(m.need|m.may|AttrState) == 0
}

// Modify changes a QP's attributes and, with AttrState, its state to next.
func (qp *QP) Modify(attr *QPAttr, mask AttrMask, next QPState) unix.Errno {
	d := qp.Context.Device
	if e := qp.checkPaths(attr, mask); e != 0 {
		return e
	}
	if qp.Frames.RSS != nil {
		return unix.ENOSYS
	}
	from := qp.Known
	if mask&AttrCurState != 0 {
		from = attr.CurState
	}
	to := from
	if mask&AttrState != 0 {
		to = next
	}
	limit := unix.Errno(0)
	if mask&AttrRateLimit != 0 {
		limit = qp.limits(attr.RateLimit)
	}
	switch later := mask == AttrRateLimit && from != RTS && qp.Type != DCT; {
	case later:
		return limit
	case !legal(qp.Type, from, to, mask), !qp.admits(attr, mask):
		return unix.EINVAL
	case from == Reset && to == Reset:
		return 0
	case limit != 0:
		return limit
	case d.Config.Limits.MaxAtomic == 0 && qp.wantsAtomics(attr, mask):
		return unix.EOPNOTSUPP
	case from != qp.State && to != Reset && to != Err: // the adapter's: a bad state
		return unix.EINVAL
	}
	if to == Reset {
		qp.engine().QPLeaves(qp)
	}
	was := qp.State
	if to == Reset {
		qp.Attr = QPAttr{}
	}
	if qp.Type == DCT && to == RTR && !d.qps().number(qp, d.Config.Limits.MaxQP) {
		return unix.ENOMEM
	}
	qp.Attr.take(attr, mask)
	qp.State, qp.Known = to, to
	qp.engine().QPModified(qp, was, to)
	return 0
}

// checkPaths checks addresses, and completes them. C: _ib_modify_qp.
func (qp *QP) checkPaths(a *QPAttr, mask AttrMask) unix.Errno {
	d := qp.Context.Device
	if mask&AttrAV != 0 {
		if e := d.checkAH(&a.AH); e != 0 {
			return e
		}
		if qp.Type.Connected() {
			if e := d.resolve(&a.AH); e != 0 {
				return e
			}
		}
	}
	if mask&AttrAltPath != 0 {
		if e := d.checkAH(&a.AltAH); e != 0 {
			return e
		}
		p := d.port(qp.Attr.Port)
		if mask&AttrPort != 0 {
			p = d.port(a.Port)
		}
		if p == nil || p.roce() || d.port(a.AltAH.Port).roce() {
			return unix.EINVAL // RoCE has no alternate paths
		}
	}
	return 0
}

// admits reports whether the driver takes the values. What is too large for a field of the adapter's is cut off, not
// refused. C: mlx5_ib_modify_qp, mlx5_set_path.
func (qp *QP) admits(a *QPAttr, mask AttrMask) bool {
	d := qp.Context.Device
	port := d.port(qp.Attr.Port)
	if mask&AttrPort != 0 {
		if port = d.port(a.Port); port == nil {
			return false
		}
	}
	if port == nil {
		port = d.Ports[0]
	}
	rd := uint8(min(d.Config.Limits.MaxRdAtom, 255))
	return (mask&AttrPKeyIndex == 0 || int(a.PKeyIndex) < len(port.Config.PKeys)) &&
		(mask&AttrPathMTU == 0 || a.PathMTU >= 1 && a.PathMTU <= uint8(port.Config.ActiveMTU)) &&
		(mask&AttrMaxRdAtomic == 0 || a.MaxRdAtomic <= rd) &&
		(mask&AttrMaxDestRdAtomic == 0 || a.MaxDestRdAtomic <= rd) &&
		(mask&AttrAV == 0 || isRate(a.AH.StaticRate)) &&
		(mask&AttrAltPath == 0 || isRate(a.AltAH.StaticRate))
}

// limits checks a limit, in kbit/s, to the rate of a QP. It has no effect here. C: qp_rl_parse, mlx5_rl_add_rate.
func (qp *QP) limits(rate uint32) unix.Errno {
	switch {
	case qp.Type != RawPacket, rate != 0 && !qp.Context.Device.Recent():
		return unix.EOPNOTSUPP
	case rate > MaxPace:
		return unix.EINVAL
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

// isRate reports whether mlx5's driver takes a static rate. C: mlx5r_ib_rate.
func isRate(r uint8) bool {
	const least, most = 2, 25 // IB_RATE_2_5_GBPS, IB_RATE_1600_GBPS
	return r == 0 || r >= least && r <= most
}

// take copies the attributes of the mask, as many bits of each as the adapter has.
func (q *QPAttr) take(a *QPAttr, mask AttrMask) {
	for _, f := range []struct {
		bit  AttrMask
		copy func()
	}{
		{AttrAccess, func() { q.Access = a.Access }},
		{AttrPKeyIndex, func() { q.PKeyIndex = a.PKeyIndex }},
		{AttrPort, func() { q.Port = a.Port }},
		{AttrQKey, func() { q.QKey = a.QKey }},
		{AttrAV, func() { q.AH = a.AH }},
		{AttrPathMTU, func() { q.PathMTU = a.PathMTU }},
		{AttrTimeout, func() { q.Timeout = a.Timeout & 31 }},
		{AttrRetryCnt, func() { q.RetryCnt = a.RetryCnt & 7 }},
		{AttrRNRRetry, func() { q.RNRRetry = a.RNRRetry & 7 }},
		{AttrRQPSN, func() { q.RQPSN = a.RQPSN & 0xffffff }},
		{AttrMaxRdAtomic, func() { q.MaxRdAtomic = a.MaxRdAtomic }},
		{AttrAltPath, func() {
			q.AltAH, q.AltPKeyIndex, q.AltPort, q.AltTimeout = a.AltAH, a.AltPKeyIndex, a.AltPort, a.AltTimeout&31
		}},
		{AttrMinRNRTimer, func() { q.MinRNRTimer = a.MinRNRTimer & 31 }},
		{AttrSQPSN, func() { q.SQPSN = a.SQPSN & 0xffffff }},
		{AttrMaxDestRdAtomic, func() { q.MaxDestRdAtomic = a.MaxDestRdAtomic }},
		{AttrPathMigState, func() { q.PathMigState = a.PathMigState }},
		{AttrDestQPN, func() { q.DestQPN = a.DestQPN & 0xffffff }},
	} {
		if mask&f.bit != 0 {
			f.copy()
		}
	}
	if q.PathMigState > migArmed {
		q.PathMigState = 0
	}
}

const migArmed = 2 // IB_MIG_ARMED

// Reads is how many READs and atomics the QP has outstanding at most: an adapter keeps the logarithm.
func (q *QPAttr) Reads() uint8 { return uint8(roundUp(max(uint32(q.MaxRdAtomic), 1))) }

// DestReads is how many it has resources for.
func (q *QPAttr) DestReads() uint8 { return uint8(roundUp(max(uint32(q.MaxDestRdAtomic), 1))) }

// Rights are what the peer may do. Without resources, it may not read. C: set_qpc_atomic_flags.
func (qp *QP) Rights() Access {
	a := qp.Attr.Access & (AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic)
	if qp.Attr.MaxDestRdAtomic == 0 && qp.Type != DCT {
		a &= AccessRemoteWrite
	}
	return a
}

// ResetStream takes a stream of a DCI out of its error.
func (qp *QP) ResetStream(stream uint16) { qp.engine().StreamReset(qp, stream) }

// ForceError moves the QP to ERR by itself, as an adapter does.
func (qp *QP) ForceError() {
	if qp.State == Err || qp.State == Reset {
		return
	}
	was := qp.State
	qp.State = Err
	qp.engine().QPModified(qp, was, Err)
}
