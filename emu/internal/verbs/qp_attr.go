//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

const standardAttrs = 1<<21 - 1 // IB_QP_ATTR_STANDARD_BITS

// controlledQKey is the bit of a Q_Key that a program may not set by itself. C: IB_QP_SET_QKEY.
const controlledQKey = 1 << 31

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
		case !ordered && !c.ctx.Device.Recent():
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
		qp, e := hca.FindQP(c.ctx, b.QPHandle)
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
		if mask&hca.AttrQKey != 0 && b.Qkey&controlledQKey != 0 && !c.who.capable(unix.CAP_NET_RAW) {
			return unix.EPERM
		}
		switch qp.Type { // what the kernel ignores
		case hca.XRCSend:
			mask &^= hca.AttrMaxDestRdAtomic | hca.AttrMinRNRTimer
		case hca.XRCRecv:
			mask &^= hca.AttrMaxRdAtomic | hca.AttrRetryCnt | hca.AttrRNRRetry
		}
		a := qpAttr(&q)
		if e = qp.Modify(&a, mask, hca.QPState(b.QPState)); e == 0 && qp.Type == hca.DCT {
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
		MaxRdAtomic: b.MaxRdAtomic, MaxDestRdAtomic: b.MaxDestRdAtomic, MinRNRTimer: b.MinRnrTimer, Timeout: b.Timeout,
		RetryCnt: b.RetryCnt, RNRRetry: b.RnrRetry, Port: b.PortNum, AltPort: b.AltPortNum, AltTimeout: b.AltTimeout,
		RateLimit: q.RateLimit,
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
	return answer(c, func() (v uapi.QueryQPResp, e unix.Errno) {
		qp, e := hca.FindQP(c.ctx, q.QPHandle)
		switch {
		case e != 0:
			return v, e
		case qp.Frames.RSS != nil:
			return v, unix.ENOSYS
		case qp.Type == hca.DCT:
			return queryDCT(qp, hca.AttrMask(q.AttrMask))
		}
		qp.Known = qp.State
		return qpState(qp), 0
	})
}

// qpState is what the driver says of a QP, which is what the adapter keeps of it: of its send queue nothing, because
// only the library knows what its ring can hold. C: mlx5_ib_query_qp.
func qpState(qp *hca.QP) uapi.QueryQPResp {
	v := uapi.QueryQPResp{QPState: uint8(qp.State), CurQPState: uint8(qp.State), MaxRecvWR: qp.RQ.Count,
		MaxRecvSGE: 1 << qp.RQ.Shift / sgeSize, SqSigAll: bit(qp.SigAll)}
	if qp.RQ.Count > 0 && qp.Flags&uapi.QPFlagSignature != 0 {
		v.MaxRecvSGE--
	}
	if qp.Type == hca.RawPacket { // it is two queues
		v.PortNum = 1
		return v
	}
	a := &qp.Attr
	v.Qkey, v.RqPSN, v.SqPSN, v.DestQPNum, v.QPAccessFlags = a.QKey, qp.Run.EPSN, qp.Run.PSN, a.DestQPN,
		uint32(qp.Rights())
	v.PkeyIndex, v.AltPkeyIndex, v.PathMTU, v.PathMigState = a.PKeyIndex, a.AltPKeyIndex, a.PathMTU, a.PathMigState
	v.MaxRdAtomic, v.MaxDestRdAtomic, v.MinRnrTimer, v.PortNum = a.Reads(), a.DestReads(), a.MinRNRTimer, a.Port
	v.Timeout, v.RetryCnt, v.RnrRetry, v.AltPortNum, v.AltTimeout = a.Timeout, a.RetryCnt, a.RNRRetry, a.AltPort,
		a.AltTimeout
	if qp.Type == hca.UD && qp.State != hca.Reset && qp.State != hca.Init {
		v.PathMTU = uint8(config.MTU4096) // whatever the port's is
	}
	if qp.Type.Connected() {
		v.Dest, v.AltDest = pathOf(qp, &a.AH, a.Port), pathOf(qp, &a.AltAH, a.AltPort)
	}
	return v
}

// pathOf is an address as the adapter keeps it. C: to_rdma_ah_attr.
func pathOf(qp *hca.QP, a *hca.AHAttr, port uint8) uapi.QPDest {
	if port == 0 {
		return uapi.QPDest{}
	}
	v := *a
	v.Port = port
	if qp.Context.Device.Ports[port-1].Config.LinkLayer == config.Ethernet {
		v.Global, v.DLID, v.SL, v.SrcPathBits = true, 0, 0, 0
	}
	if v.StaticRate > mostQueried {
		v.StaticRate = 0
	}
	return attrDest(&v)
}

// mostQueried is the last static rate that the adapter keeps. C: IB_RATE_600_GBPS.
const mostQueried = 22
