//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// takeCQ reads create_cq from all its forms.
func takeCQ(c *call) (q uapi.ExCreateCQ, e unix.Errno) {
	switch {
	case c.b != nil:
		q = uapi.ExCreateCQ{UserHandle: c.b.Uint(2), CQE: uint32(c.b.Uint(1)), CompVector: uint32(c.b.Uint(4)),
			CompChannel: -1, Flags: uint32(c.b.Uint(5))}
		if c.b.Uint(5)>>32 != 0 {
			return q, unix.EINVAL
		}
		if c.b.Has(3) {
			if q.CompChannel = int32(c.b.Uint(3)); c.b.Uint(3)>>31 != 0 {
				return q, unix.EBADF
			}
		}
	case c.r.Extends:
		q, e = uapi.Take[uapi.ExCreateCQ](c.r)
	default:
		q = uapi.Decode[uapi.ExCreateCQ](c.r.Core[8:28])
	}
	if q.CompMask != 0 || q.Reserved != 0 || q.CompVector >= compVectors || c.b != nil && q.Flags&^3 != 0 {
		e = first(e, unix.EINVAL)
	}
	return q, e
}

// isFormat reports whether f is one format of compressed completions.
func isFormat(f uint8) bool {
	return f == hca.FormatHash || f == hca.FormatChecksum || f == hca.FormatStride
}

func createCQ(c *call) unix.Errno {
	q, e := takeCQ(c)
	if e != 0 {
		return e
	}
	d, e := driver[uapi.Mlx5CreateCQ](c, 24)
	const offered = uapi.CQFlagUAR | uapi.CQFlag128BPad
	const known = offered | uapi.CQFlagRealTime
	switch {
	case e != 0, d.Flags&^known != 0, d.CQESize != 64 && d.CQESize != 128, d.Reserved0 != 0, d.Reserved1 != 0:
		return unix.EINVAL
	case d.CQECompEn == 1 && !isFormat(d.CQECompResFormat):
		return unix.EINVAL
	case d.Flags&^offered != 0, d.Flags&uapi.CQFlag128BPad != 0 && d.CQESize != 128:
		return unix.EOPNOTSUPP
	}
	i := hca.CQInit{User: q.UserHandle, Entries: q.CQE, Vector: q.CompVector, Flags: q.Flags, Buf: d.BufAddr,
		DB: d.DbAddr, CQESize: d.CQESize, Pad: d.Flags&uapi.CQFlag128BPad != 0,
		UAR: -1}
	if d.CQECompEn == 1 {
		i.Format = uint32(d.CQECompResFormat)
	}
	if d.Flags&uapi.CQFlagUAR != 0 {
		i.UAR = int(d.UARPageIndex)
	}
	var channel string
	if q.CompChannel >= 0 {
		channel = c.who.link(q.CompChannel)
	}
	c.req = q
	cq, e := create(c, func() (v hca.CQ, _ unix.Errno) {
		if i.UAR < 0 && hca.RegistersOf(c.ctx).Static() == 0 {
			return v, unix.EINVAL
		}
		if q.CompChannel >= 0 {
			if i.Channel = c.ctx.Channels[channel]; i.Channel == nil {
				return v, unix.EBADF
			}
		}
		return copied(hca.CreateCQ(c.ctx, &i))
	}, func(cq hca.CQ) { hca.Destroy[*hca.CQ](c.ctx, cq.Handle) })
	if e != 0 {
		return e
	}
	v := uapi.CreateCQResp{CQHandle: cq.Handle, CQE: cq.Entries - 1}
	e = replyDriver(c, uapi.Mlx5NumResp{Num: cq.Num})
	if c.extends() {
		return first(e, reply(c, uapi.ExCreateCQResp{Base: v, ResponseLength: fits[uapi.ExCreateCQResp](c.r.Out)}))
	}
	return first(e, told(c, v, cq.Handle), out(c, 6, v.CQE))
}

func resizeCQ(c *call, q *uapi.ResizeCQ) unix.Errno {
	d, e := driver[uapi.Mlx5ResizeCQ](c, 10)
	if e != 0 || d.Reserved0 != 0 || d.Reserved1 != 0 || d.CQESize != 64 && d.CQESize != 128 {
		return unix.EINVAL
	}
	return answer(c, func() (v uapi.ResizeCQResp, e unix.Errno) {
		cq, e := hca.Find[*hca.CQ](c.ctx, q.CQHandle)
		if e == 0 {
			e = cq.Resize(q.CQE, d.BufAddr, uint32(d.CQESize))
			v.CQE = cq.Entries - 1
		}
		return v, e
	})
}

func modifyCQ(c *call, q *uapi.ExModifyCQ) unix.Errno {
	switch {
	case q.AttrMask == 0, q.Reserved != 0:
		return unix.EINVAL
	case q.AttrMask != 1:
		return unix.EOPNOTSUPP
	}
	return on(c, q.CQHandle, func(cq *hca.CQ) unix.Errno { return cq.Modify(q.CQCount, q.CQPeriod) })
}

func cqEvents(cq *hca.CQ) uapi.DestroyCQResp {
	return uapi.DestroyCQResp{CompEventsReported: cq.Delivered, AsyncEventsReported: cq.AsyncDelivered}
}
