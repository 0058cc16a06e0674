//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// Of enum ib_uverbs_srq_type; 0 is a basic SRQ.
const (
	srqXRC = 1
	srqTM  = 2
)

// takeSRQ reads create_srq from all its forms.
func takeSRQ(c *call) (q uapi.CreateXSRQ, e unix.Errno) {
	switch {
	case c.b != nil:
		q = uapi.CreateXSRQ{UserHandle: c.b.Uint(4), SRQType: uint32(c.b.Uint(9)), PDHandle: uint32(c.b.Uint(1)),
			MaxWR: uint32(c.b.Uint(5)), MaxSGE: uint32(c.b.Uint(6)), SRQLimit: uint32(c.b.Uint(7)),
			MaxNumTags: uint32(c.b.Uint(8)),
			XRCDHandle: uint32(c.b.Uint(2)), CQHandle: uint32(c.b.Uint(3))}
		if c.b.Uint(9) > 2 || q.SRQType == srqXRC && (!c.b.Has(2) || !c.b.Has(3) || !c.b.Has(13)) ||
			q.SRQType == srqTM && (!c.b.Has(3) || !c.b.Has(8)) {
			e = unix.EINVAL
		}
	case c.name == "create_xsrq":
		c.name = "create_srq"
		q, e = uapi.Take[uapi.CreateXSRQ](c.r)
	default: // the newer request lacks only the type
		q = uapi.Decode[uapi.CreateXSRQ](append(append(append(make([]byte, 0, 40), c.r.Core[:16]...), 0, 0, 0, 0),
			c.r.Core[16:32]...))
	}
	return q, e
}

func createSRQ(c *call) unix.Errno {
	q, e := takeSRQ(c)
	if e != 0 {
		return e
	}
	d, e := driver[uapi.Mlx5CreateSRQ](c, 20)
	if e != 0 || d.Reserved0 != 0 || d.Reserved1 != 0 { // flags that it does not know the driver ignores
		return unix.EINVAL
	}
	if q.SRQType > srqTM {
		return unix.EOPNOTSUPP
	}
	i := hca.SRQInit{User: q.UserHandle, PD: q.PDHandle, XRC: q.SRQType == srqXRC, MaxWR: q.MaxWR, MaxSGE: q.MaxSGE,
		Buf: d.BufAddr, DB: d.DbAddr, UIdx: c.userIndex(d.Uidx, 28)} // a limit is armed by modify_srq alone
	switch q.SRQType {
	case srqXRC:
		i.XRCD, i.CQ = q.XRCDHandle, q.CQHandle
	case srqTM:
		i.TM, i.CQ, i.Tags = true, q.CQHandle, q.MaxNumTags
	}
	c.req = q
	s, e := made(c, func() (*hca.SRQ, unix.Errno) { return hca.CreateSRQ(c.ctx, &i) })
	if e != 0 {
		return e
	}
	v := uapi.CreateSRQResp{SRQHandle: s.Handle, MaxWR: s.Ring.Count - 1, MaxSGE: s.MaxSGE}
	if s.XRC {
		v.SRQN = s.Num
	}
	e = replyDriver(c, uapi.Mlx5NumResp{Num: s.Num})
	return first(e, told(c, v, s.Handle), out(c, 11, v.MaxWR), out(c, 12, v.MaxSGE), out(c, 13, s.Num))
}

func modifySRQ(c *call, q *uapi.ModifySRQ) unix.Errno {
	return on(c, q.SRQHandle, func(s *hca.SRQ) unix.Errno { return s.Modify(q.AttrMask, q.SRQLimit) })
}

func querySRQ(c *call, q *uapi.QuerySRQ) unix.Errno {
	return answer(c, func() (v uapi.QuerySRQResp, e unix.Errno) {
		s, e := hca.Find[*hca.SRQ](c.ctx, q.SRQHandle)
		if e == 0 {
			v = uapi.QuerySRQResp{MaxWR: s.Ring.Count - 1, MaxSGE: s.MaxSGE, SRQLimit: s.Limit}
		}
		return v, e
	})
}
