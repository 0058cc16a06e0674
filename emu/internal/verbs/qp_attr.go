//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

const standardAttrs = 1<<21 - 1 // IB_QP_ATTR_STANDARD_BITS

func modifyQP(c *call) unix.Errno {
	var q uapi.ExModifyQP
	var e unix.Errno
	known := hca.AttrMask(standardAttrs)
	if c.r.Extends {
		q, e = uapi.Take[uapi.ExModifyQP](c.r)
		known |= hca.AttrRateLimit
		d, e := driver[uapi.Mlx5ModifyQP](c, 0)
		switch ordered := d.CompMask&uapi.ModifyOutOfOrder == 0; {
		case e != 0 || d.CompMask&^uapi.ModifyOutOfOrder != 0:
			return unix.EINVAL
		case !ordered && !recent(c.ctx.Device):
			return refuse(c)
		}
	} else {
		q.Base, e = uapi.Take[uapi.ModifyQP](c.r)
	}
	if e != 0 {
		return e
	}
	b := &q.Base
	mask := hca.AttrMask(b.AttrMask)
	switch {
	case mask&^known != 0:
		return unix.EOPNOTSUPP
	case mask&hca.AttrCurState != 0 && hca.QPState(b.CurQPState) > hca.Err,
		mask&hca.AttrState != 0 && hca.QPState(b.QPState) > hca.Err:
		return unix.EINVAL
	case mask&hca.AttrAltPath != 0 && b.AltPortNum != b.AltDest.PortNum:
		return unix.EINVAL
	}
	c.req = q
	r := uapi.Mlx5ModifyQPResp{ResponseLength: fits[uapi.Mlx5ModifyQPResp](c.r.DrvOut)}
	e = c.do(func() unix.Errno {
		qp, e := c.ctx.QP(b.QPHandle)
		if e != 0 {
			return e
		}
		if qp.Type == hca.DCT && hca.QPState(b.QPState) == hca.RTR && (!c.r.Extends || r.ResponseLength < 8) {
			return unix.EINVAL // the answer has no room for the number
		}
		for _, p := range []struct {
			given hca.AttrMask
			port  uint8
		}{{hca.AttrPort, b.PortNum}, {hca.AttrAV, b.Dest.PortNum}, {hca.AttrAltPath, b.AltPortNum}} {
			if _, e := c.port(uint64(p.port)); mask&p.given != 0 && e != 0 {
				return e
			}
		}
		if mask&hca.AttrAV != 0 {
			switch {
			case mask&hca.AttrState != 0 && hca.QPState(b.QPState) == hca.RTR:
				if b.Dest.PortNum != qp.Attr.Port {
					return unix.EINVAL
				}
			case mask&hca.AttrPort != 0:
				if b.PortNum != b.Dest.PortNum {
					return unix.EINVAL
				}
			default: // the address changes while drained: the port with it
				mask |= hca.AttrPort
				b.PortNum = b.Dest.PortNum
			}
		}
		switch qp.Type { // what the kernel ignores
		case hca.XRCSend:
			mask &^= hca.AttrMaxDestRdAtomic | hca.AttrMinRNRTimer
		case hca.XRCRecv:
			mask &^= hca.AttrMaxRdAtomic | hca.AttrRetryCnt | hca.AttrRNRRetry
		}
		a := qpAttr(&q)
		if e = c.ctx.ModifyQP(b.QPHandle, &a, mask, hca.QPState(b.QPState)); e == 0 && qp.Type == hca.DCT {
			r.Dctn = qp.Num
		}
		return e
	})
	if e != 0 || !c.r.Extends {
		return e
	}
	return first(reply(c, uapi.ExResp{ResponseLength: fits[uapi.ExResp](c.r.Out)}),
		replyDriver(c, r))
}

func qpAttr(q *uapi.ExModifyQP) hca.QPAttr {
	b := &q.Base
	return hca.QPAttr{
		CurState: hca.QPState(b.CurQPState), PathMTU: b.PathMTU, PathMigState: b.PathMigState, QKey: b.Qkey,
		RQPSN: b.RqPSN, SQPSN: b.SqPSN, DestQPN: b.DestQPNum, Access: hca.Access(b.QPAccessFlags),
		AH: destAttr(&b.Dest), AltAH: destAttr(&b.AltDest), PKeyIndex: b.PkeyIndex, AltPKeyIndex: b.AltPkeyIndex,
		SQDNotify: b.EnSqdAsyncNotify != 0, MaxRdAtomic: b.MaxRdAtomic, MaxDestRdAtomic: b.MaxDestRdAtomic,
		MinRNRTimer: b.MinRnrTimer, Timeout: b.Timeout, RetryCnt: b.RetryCnt, RNRRetry: b.RnrRetry, Port: b.PortNum,
		AltPort: b.AltPortNum, AltTimeout: b.AltTimeout,
	}
}

func destAttr(d *uapi.QPDest) hca.AHAttr {
	return hca.AHAttr{DGID: d.DGID, FlowLabel: d.FlowLabel, SGIDIndex: d.SGIDIndex, HopLimit: d.HopLimit,
		TrafficClass: d.TrafficClass, DLID: d.DLID, SL: d.SL,
		SrcPathBits: d.SrcPathBits, StaticRate: d.StaticRate, Global: d.IsGlobal != 0, Port: d.PortNum}
}

func attrDest(a *hca.AHAttr) (d uapi.QPDest) {
	d = uapi.QPDest{DLID: a.DLID, SL: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate, PortNum: a.Port}
	if a.Global {
		d.IsGlobal, d.DGID, d.FlowLabel, d.SGIDIndex, d.HopLimit, d.TrafficClass = 1, a.DGID, a.FlowLabel, a.SGIDIndex,
			a.HopLimit, a.TrafficClass
	}
	return d
}

func queryQP(c *call, q *uapi.QueryQP) unix.Errno {
	v, e := get(c, func() (v uapi.QueryQPResp, e unix.Errno) {
		qp, e := c.ctx.QP(q.QPHandle)
		if e != 0 {
			return v, e
		}
		if qp.Type == hca.DCT && !queryDCT(qp, hca.AttrMask(q.AttrMask)) {
			return v, unix.EINVAL
		}
		a := &qp.Attr
		// The receive queue as its ring has it. mlx5_ib reports nothing about the send queue: only the library knows
		// what its ring can hold.
		return uapi.QueryQPResp{
			Dest: attrDest(&a.AH), AltDest: attrDest(&a.AltAH), MaxRecvWR: qp.RQ.Count,
			MaxRecvSGE: 1 << qp.RQ.Shift / sgeSize, Qkey: a.QKey, RqPSN: a.RQPSN, SqPSN: a.SQPSN,
			DestQPNum: a.DestQPN, QPAccessFlags: uint32(a.Access), PkeyIndex: a.PKeyIndex,
			AltPkeyIndex: a.AltPKeyIndex, QPState: uint8(qp.State), CurQPState: uint8(qp.State), PathMTU: a.PathMTU,
			PathMigState: a.PathMigState, MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic,
			MinRnrTimer: a.MinRNRTimer, PortNum: a.Port, Timeout: a.Timeout, RetryCnt: a.RetryCnt,
			RnrRetry: a.RNRRetry, AltPortNum: a.AltPort, AltTimeout: a.AltTimeout, SqSigAll: bit(qp.SigAll),
		}, 0
	})
	if e != 0 {
		return e
	}
	return reply(c, v)
}
