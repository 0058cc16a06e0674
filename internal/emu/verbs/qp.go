//go:build linux

package verbs

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/emu/hca"
	"github.com/pureverbs/pureverbs/internal/emu/uapi"
)

// Creation flags of a QP. C: enum ib_uverbs_qp_create_flags.
const (
	createBlockLoopback = 1 << 1
	createSourceQPN     = 1 << 10
	createSigAll        = 1 << 12 // the ioctl's only
	createKnown         = createBlockLoopback | 1<<2 | 1<<3 | 1<<4 | 1<<8 | 1<<9 | createSourceQPN | 1<<11

	sgeSize = 16

	qpDriverFlags = uapi.QPFlagScatterCQE | uapi.QPFlagAllowScatter | uapi.QPFlagUARPage | uapi.QPFlagBFRegIndex
	noBFReg       = 1 << 31
)

// takeQP reads create_qp from all its forms.
func takeQP(c *call) (q uapi.ExCreateQP, xrcd uint32, e unix.Errno) {
	switch {
	case c.b != nil:
		copy(uapi.Bytes(&q)[24:], c.b.Bytes(8)[:uapi.Size[uapi.QPCap]()])
		q.UserHandle, q.PDHandle, q.SendCQHandle, q.RecvCQHandle, q.SRQHandle = c.b.Uint(7), uint32(c.b.Uint(2)),
			uint32(c.b.Uint(4)), uint32(c.b.Uint(5)), uint32(c.b.Uint(3))
		q.QPType, q.CreateFlags, q.SourceQPN = uint8(c.b.Uint(9)), uint32(c.b.Uint(10))&^createSigAll,
			uint32(c.b.Uint(11))
		q.SqSigAll, q.IsSRQ = bit(c.b.Uint(10)&createSigAll != 0), bit(c.b.Has(3))
		if c.b.Has(11) {
			q.CreateFlags |= createSourceQPN
		}
		// What must be named depends on the type.
		pd, send, recv := true, true, true
		switch hca.QPType(q.QPType) {
		case hca.XRCRecv:
			pd, send, recv = false, false, false
		case hca.XRCSend:
			recv = false
		}
		if c.b.Uint(9) > 255 || c.b.Uint(10)>>32 != 0 || pd && !c.b.Has(2) || send && !c.b.Has(4) ||
			recv && !c.b.Has(5) || !pd && !c.b.Has(1) {
			e = unix.EINVAL
		} else if c.b.Has(6) { // an indirection table
			e = unix.EOPNOTSUPP
		}
		return q, uint32(c.b.Uint(1)), e
	case c.r.Extends:
		q, e = uapi.Take[uapi.ExCreateQP](c.r)
		if q.Reserved != 0 || q.CompMask > 1 {
			e = first(e, unix.EINVAL)
		} else if q.CompMask != 0 {
			e = first(e, unix.EOPNOTSUPP)
		}
	default:
		q = uapi.Decode[uapi.ExCreateQP](c.r.Core[8:56])
		q.Reserved = 0
	}
	// The older commands name the XRC domain where the protection domain stands.
	return q, q.PDHandle, e
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func createQP(c *call) unix.Errno {
	q, xrcd, e := takeQP(c)
	if e != 0 {
		return e
	}
	i := hca.QPInit{User: q.UserHandle, Type: hca.QPType(q.QPType), SigAll: q.SqSigAll != 0, CreateFlags: q.CreateFlags,
		SourceQPN: q.SourceQPN, UARPage: -1, Register: -1,
		Cap: hca.QPCap{SendWR: q.MaxSendWR, RecvWR: q.MaxRecvWR, SendSGE: q.MaxSendSGE, RecvSGE: q.MaxRecvSGE,
			Inline: q.MaxInlineData}}
	switch i.Type {
	case hca.XRCRecv:
		i.XRCD = xrcd
	case hca.XRCSend:
		i.PD, i.SendCQ, i.Cap.RecvWR, i.Cap.RecvSGE = q.PDHandle, q.SendCQHandle, 0, 0
	case hca.RC, hca.UC, hca.UD:
		i.PD, i.SendCQ, i.RecvCQ = q.PDHandle, q.SendCQHandle, q.RecvCQHandle
		if q.IsSRQ != 0 {
			i.SRQ = q.SRQHandle
		}
	case hca.RawPacket, hca.DriverQP: // there is no Ethernet to put frames on; DCI and DCT
		return refuse(c)
	default:
		return unix.EINVAL
	}
	if q.CreateFlags&^createKnown != 0 {
		return unix.EINVAL
	}
	if q.CreateFlags&^createBlockLoopback != 0 {
		return refuse(c)
	}
	if i.Type != hca.XRCRecv {
		d, e := driver[uapi.Mlx5CreateQP](c, 32)
		if e != 0 {
			return e
		}
		if d.Flags&^qpDriverFlags != 0 || d.Reserved != 0 || d.DciStreams != [2]byte{} {
			return unix.EINVAL
		}
		i.Buf, i.DB, i.SQCount, i.RQCount, i.RQShift = d.BufAddr, d.DbAddr, d.SqWqeCount, d.RqWqeCount, d.RqWqeShift
		i.Flags, i.UIdx = d.Flags, c.userIndex(d.Uidx, 36)
		switch n := int(min(d.BfregIndex, math.MaxInt32)); {
		case d.Flags&uapi.QPFlagUARPage != 0:
			i.UARPage = n
		case d.Flags&uapi.QPFlagBFRegIndex != 0:
			i.Register = n
		}
	}
	c.req = q
	qp, e := create(c, func() (*hca.QP, unix.Errno) { return c.ctx.CreateQP(&i) },
		func(qp *hca.QP) { c.ctx.DestroyQP(qp.Handle) })
	if e != 0 {
		return e
	}
	v := uapi.CreateQPResp{QPHandle: qp.Handle, QPN: qp.Num, MaxSendWR: qp.Cap.SendWR, MaxRecvWR: qp.Cap.RecvWR,
		MaxSendSGE: qp.Cap.SendSGE,
		MaxRecvSGE: qp.Cap.RecvSGE, MaxInlineData: qp.Cap.Inline}
	if i.Type != hca.XRCRecv {
		n, ok := qp.RegisterNumber()
		if !ok {
			n = noBFReg
		}
		e = replyDriver(c, uapi.Mlx5CreateQPResp{BfregIndex: n})
	}
	switch {
	case c.b != nil:
		c.resp = v
		return first(e, c.b.SetID(0, uint64(qp.Handle)), out(c, 13, uapi.Decode[uapi.QPCap](uapi.Bytes(&v)[8:])),
			out(c, 14, v.QPN))
	case c.r.Extends:
		return first(e, reply(c, uapi.ExCreateQPResp{Base: v, ResponseLength: fits[uapi.ExCreateQPResp](c.r.Out)}))
	}
	return first(e, reply(c, v))
}

func openQP(c *call, q *uapi.OpenQP) unix.Errno {
	if hca.QPType(q.QPType) != hca.XRCRecv {
		return unix.EINVAL
	}
	qp, e := create(c, func() (*hca.QP, unix.Errno) { return c.ctx.OpenQP(q.PDHandle, q.QPN, q.UserHandle) },
		func(qp *hca.QP) { c.ctx.DestroyQP(qp.Handle) })
	if e != 0 {
		return e
	}
	return reply(c, uapi.CreateQPResp{QPHandle: qp.Handle, QPN: qp.Num})
}

const standardAttrs = 1<<21 - 1 // IB_QP_ATTR_STANDARD_BITS

func modifyQP(c *call) unix.Errno {
	var q uapi.ExModifyQP
	var e unix.Errno
	known := hca.AttrMask(standardAttrs)
	if c.r.Extends {
		q, e = uapi.Take[uapi.ExModifyQP](c.r)
		known |= hca.AttrRateLimit
		if d, e := driver[uapi.Mlx5ModifyQP](c, 0); e != 0 || d.CompMask != 0 {
			return unix.EINVAL
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
	e = c.do(func() unix.Errno {
		qp, e := c.ctx.QP(b.QPHandle)
		if e != 0 {
			return e
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
		return c.ctx.ModifyQP(b.QPHandle, &a, mask, hca.QPState(b.QPState))
	})
	if e != 0 || !c.r.Extends {
		return e
	}
	return first(reply(c, uapi.ExResp{ResponseLength: fits[uapi.ExResp](c.r.Out)}),
		replyDriver(c, uapi.Mlx5ModifyQPResp{ResponseLength: fits[uapi.Mlx5ModifyQPResp](c.r.DrvOut)}))
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

func createAH(c *call, q *uapi.CreateAH) unix.Errno {
	g, r := &q.Attr, &q.Attr.GRH
	a := destAttr(&uapi.QPDest{DGID: r.DGID, FlowLabel: r.FlowLabel, SGIDIndex: r.SGIDIndex, HopLimit: r.HopLimit,
		TrafficClass: r.TrafficClass, DLID: g.DLID, SL: g.SL,
		SrcPathBits: g.SrcPathBits, StaticRate: g.StaticRate, IsGlobal: g.IsGlobal, PortNum: g.PortNum})
	const least = 10 // of the driver's answer
	if n := c.driverRoom().Len; n > 0 && n < least {
		return unix.EINVAL
	}
	ah, e := create(c, func() (*hca.AH, unix.Errno) {
		if _, e := c.port(uint64(a.Port)); e != 0 {
			return nil, e
		}
		return c.ctx.CreateAH(q.PDHandle, q.UserHandle, &a)
	}, func(ah *hca.AH) { c.ctx.DestroyAH(ah.Handle) })
	if e != 0 {
		return e
	}
	return first(replyDriver(c, uapi.Mlx5CreateAHResp{ResponseLength: least, Dmac: ah.Attr.DMAC}),
		reply(c, uapi.HandleOnly{Handle: ah.Handle}))
}

// mcast attaches or detaches.
func mcast(f func(c *hca.Context, qp uint32, gid [16]byte, mlid uint16) unix.Errno) func(*call) unix.Errno {
	return taking(func(c *call, q *uapi.Mcast) unix.Errno {
		return c.do(func() unix.Errno { return f(c.ctx, q.QPHandle, q.GID, q.Mlid) })
	})
}
