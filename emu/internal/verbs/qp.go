//go:build linux

package verbs

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Creation flags of a QP. C: enum ib_uverbs_qp_create_flags.
const (
	createBlockLoopback = 1 << 1
	createSourceQPN     = 1 << 10
	createSigAll        = 1 << 12 // the ioctl's only
	createKnown         = createBlockLoopback | 1<<2 | 1<<3 | 1<<4 | 1<<8 | 1<<9 | createSourceQPN | 1<<11

	sgeSize = 16

	qpDriverFlags = uapi.QPFlagSignature | uapi.QPFlagScatterCQE | uapi.QPFlagAllowScatter | uapi.QPFlagUARPage |
		uapi.QPFlagBFRegIndex
	rawFlags = uapi.QPFlagSelfUnicast | uapi.QPFlagSelfMulti
	dciFlags = qpDriverFlags | uapi.QPFlagDCI | uapi.QPFlagDCIStream
	dctFlags = qpDriverFlags | uapi.QPFlagDCT
	noBFReg  = 1 << 31
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
		pd, send, recv := true, !c.b.Has(6), !c.b.Has(6)
		if c.b.Has(6) { // an indirection table
			q.CompMask, q.RwqIndTblHandle = 1, uint32(c.b.Uint(6))
		}
		switch hca.QPType(q.QPType) {
		case hca.XRCRecv:
			pd, send, recv = false, false, false
		case hca.XRCSend:
			recv = false
		}
		if c.b.Uint(9) > 255 || c.b.Uint(10)>>32 != 0 || pd && !c.b.Has(2) || send && !c.b.Has(4) ||
			recv && !c.b.Has(5) || !pd && !c.b.Has(1) {
			e = unix.EINVAL
		}
		return q, uint32(c.b.Uint(1)), e
	case c.r.Extends:
		q, e = uapi.Take[uapi.ExCreateQP](c.r)
		if q.Reserved != 0 || q.CompMask > 1 {
			e = first(e, unix.EINVAL)
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
		UARPage: -1, Register: -1,
		Cap: hca.QPCap{SendWR: q.MaxSendWR, RecvWR: q.MaxRecvWR, SendSGE: q.MaxSendSGE, RecvSGE: q.MaxRecvSGE,
			Inline: q.MaxInlineData}}
	switch i.Type {
	case hca.XRCRecv:
		i.XRCD = xrcd
	case hca.XRCSend:
		i.PD, i.SendCQ, i.Cap.RecvWR, i.Cap.RecvSGE = q.PDHandle, q.SendCQHandle, 0, 0
	case hca.RC, hca.UC, hca.UD, hca.DriverQP, hca.RawPacket:
		if i.Type == hca.RawPacket && !c.who.capable(unix.CAP_NET_RAW) {
			return unix.EPERM
		}
		i.PD, i.SendCQ, i.RecvCQ = q.PDHandle, q.SendCQHandle, q.RecvCQHandle
		if q.IsSRQ != 0 {
			i.SRQ = q.SRQHandle
		}
	default:
		return unix.EINVAL
	}
	switch {
	case q.CreateFlags&^createKnown != 0:
		return unix.EINVAL
	case q.CreateFlags&createSourceQPN != 0 && !c.who.capable(unix.CAP_NET_RAW):
		return unix.EPERM
	}
	if q.CompMask != 0 {
		return createRSS(c, &q, &i)
	}
	known := uint32(createBlockLoopback)
	if i.Type == hca.RawPacket {
		known |= hca.ScatterFCS | hca.StripVLAN
	}
	if q.CreateFlags&^known != 0 {
		return refuse(c)
	}
	i.CreateFlags &= known &^ createBlockLoopback // among members of a group there is none to block
	if i.Type != hca.XRCRecv {
		d, e := driver[uapi.Mlx5CreateQP](c, 32)
		if e != 0 {
			return e
		}
		known := uint32(qpDriverFlags)
		switch i.Type {
		case hca.RawPacket:
			known |= rawFlags
		case hca.DriverQP:
			known = dcInit(c, &i, &d)
		}
		if d.Flags&^known != 0 || d.Reserved != 0 || d.DciStreams != [2]byte{} && !i.DC.HasStreams {
			return unix.EINVAL
		}
		i.Buf, i.DB, i.SQCount, i.RQCount, i.RQShift = d.BufAddr, d.DbAddr, d.SqWqeCount, d.RqWqeCount, d.RqWqeShift
		i.SQBuf = d.SqBufAddr
		i.Flags, i.UIdx = d.Flags, c.userIndex(d.Uidx, 36)
		switch n := int(min(d.BfregIndex, math.MaxInt32)); {
		case d.Flags&uapi.QPFlagUARPage != 0:
			i.UARPage = n
		case d.Flags&uapi.QPFlagBFRegIndex != 0:
			i.Register = n
		}
	}
	c.req = q
	qp, e := made(c, func() (*hca.QP, unix.Errno) { return hca.CreateQP(c.ctx, &i) })
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
		r := uapi.Mlx5CreateQPResp{BfregIndex: n}
		if i.Type == hca.RawPacket { // the numbers are of four kinds; Linux tells them where there is DevX
			r.Sqn, r.Tisn, r.CompMask = qp.Num, qp.Num, uapi.QPRespSqn|uapi.QPRespTisn
			if qp.RQ.Count > 0 {
				r.Rqn, r.Tirn, r.CompMask = qp.Num, qp.Num, r.CompMask|uapi.QPRespRqn|uapi.QPRespTirn
			}
		}
		e = replyDriver(c, r)
	}
	return first(e, toldQP(c, v))
}

// toldQP replies with the QP that was made.
func toldQP(c *call, v uapi.CreateQPResp) unix.Errno {
	if c.extends() {
		return reply(c, uapi.ExCreateQPResp{Base: v, ResponseLength: fits[uapi.ExCreateQPResp](c.r.Out)})
	}
	return first(told(c, v, v.QPHandle), out(c, 13, uapi.Decode[uapi.QPCap](uapi.Bytes(&v)[8:])), out(c, 14, v.QPN))
}

func openQP(c *call, q *uapi.OpenQP) unix.Errno {
	if hca.QPType(q.QPType) != hca.XRCRecv {
		return unix.EINVAL
	}
	qp, e := made(c, func() (*hca.OpenedQP, unix.Errno) { return hca.OpenQP(c.ctx, q.PDHandle, q.QPN) })
	if e != 0 {
		return e
	}
	return reply(c, uapi.CreateQPResp{QPHandle: qp.Handle, QPN: q.QPN})
}
