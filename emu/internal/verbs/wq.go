//go:build linux

package verbs

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// takeWQ reads create_wq from both its forms.
func takeWQ(c *call) (q uapi.CreateWQ, e unix.Errno) {
	if c.b == nil {
		q, e = uapi.Take[uapi.CreateWQ](c.r)
		if q.CompMask != 0 {
			e = first(e, unix.EOPNOTSUPP)
		}
		return q, e
	}
	q = uapi.CreateWQ{PDHandle: uint32(c.b.Uint(1)), CQHandle: uint32(c.b.Uint(2)), UserHandle: c.b.Uint(3),
		WqType: uint32(c.b.Uint(4)), MaxWR: uint32(c.b.Uint(6)), MaxSGE: uint32(c.b.Uint(7)),
		CreateFlags: uint32(c.b.Uint(8))}
	if c.b.Uint(4)>>32 != 0 || c.b.Uint(8)>>32 != 0 {
		e = unix.EINVAL
	}
	return q, e
}

// Flags of a WQ. C: enum ib_uverbs_wq_flags.
const (
	delayDrop    = 1 << 2
	knownWQFlags = 1<<4 - 1
)

func createWQ(c *call) unix.Errno {
	q, e := takeWQ(c)
	switch {
	case e != 0:
		return e
	case q.CompMask != 0:
		return unix.EOPNOTSUPP
	case c.b != nil && q.CreateFlags&^knownWQFlags != 0:
		return unix.EINVAL
	case q.CreateFlags&delayDrop != 0 && !c.who.capable(unix.CAP_SYS_RAWIO):
		return unix.EPERM
	}
	d, e := driver[uapi.Mlx5CreateWQ](c, 40)
	if e != 0 {
		return e
	}
	i := hca.WQInit{User: q.UserHandle, PD: q.PDHandle, CQ: q.CQHandle, MaxWR: q.MaxWR, MaxSGE: q.MaxSGE,
		Flags: q.CreateFlags & knownWQFlags, DriverFlags: d.Flags, Buf: d.BufAddr, DB: d.DbAddr, Count: d.RqWqeCount,
		Shift: d.RqWqeShift, UIdx: d.UserIndex, Type: q.WqType, CompMask: d.CompMask,
		LogStride: d.SingleStrideLogNumOfBytes, LogStrides: d.SingleWqeLogNumOfStrides, Shifted: d.TwoByteShiftEn != 0}
	c.req = q
	w, e := made(c, func() (*hca.WQ, unix.Errno) { return hca.CreateWQ(c.ctx, &i) })
	if e != 0 {
		return e
	}
	v := uapi.CreateWQResp{WqHandle: w.Handle, MaxWR: q.MaxWR, MaxSGE: q.MaxSGE, Wqn: w.Queue.Num}
	e = replyDriver(c, uapi.Mlx5LengthResp{ResponseLength: 4})
	if c.b == nil {
		v.ResponseLength = fits[uapi.CreateWQResp](c.r.Out)
	}
	return first(e, told(c, v, w.Handle), out(c, 9, v.MaxWR), out(c, 10, v.MaxSGE), out(c, 11, v.Wqn))
}

func modifyWQ(c *call, q *uapi.ModifyWQ) unix.Errno {
	d, e := driver[uapi.Mlx5ModifyWQ](c, 8)
	if e == 0 && d != (uapi.Mlx5ModifyWQ{}) {
		e = unix.EOPNOTSUPP
	}
	if e != 0 {
		return e
	}
	return on(c, q.WqHandle, func(w *hca.WQ) unix.Errno {
		return w.Modify(&hca.WQModify{Mask: q.AttrMask, State: hca.WQState(q.WqState),
			CurState: hca.WQState(q.CurrWqState), Flags: q.Flags, FlagsMask: q.FlagsMask})
	})
}

func destroyWQ(c *call) unix.Errno {
	find := hca.Find[*hca.WQ]
	if c.b != nil {
		return destroy(find, events)(c)
	}
	return destroy(find, func(w *hca.WQ) uapi.DestroyWQResp {
		return uapi.DestroyWQResp{ResponseLength: fits[uapi.DestroyWQResp](c.r.Out), EventsReported: w.AsyncDelivered}
	})(c)
}

// maxLogIndTable is the kernel's own bound. C: IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE.
const maxLogIndTable = 13

func createIndTable(c *call) unix.Errno {
	q := uapi.Decode[uapi.CreateIndTable](c.r.Core)
	list := c.r.Core[min(len(c.r.Core), uapi.Size[uapi.CreateIndTable]()):]
	switch {
	case q.CompMask != 0:
		return unix.EOPNOTSUPP
	case q.LogIndTblSize > maxLogIndTable:
		return unix.EINVAL
	}
	n := 1 << q.LogIndTblSize
	if len(list) < 4*n || !uapi.Cleared(list, 4*n) { // one handle is padded to two
		return unix.EINVAL
	}
	handles := make([]uint32, n)
	for k := range handles {
		handles[k] = uapi.Decode[uint32](list[4*k:])
	}
	c.req = q
	t, e := made(c, func() (*hca.IndTable, unix.Errno) { return hca.CreateIndTable(c.ctx, handles) })
	if e != 0 {
		return e
	}
	return first(replyDriver(c, uapi.Mlx5LengthResp{ResponseLength: 4}),
		reply(c, uapi.CreateIndTableResp{ResponseLength: fits[uapi.CreateIndTableResp](c.r.Out), IndTblHandle: t.Handle,
			IndTblNum: t.Num}))
}

// createRSS is create_qp with an indirection table.
func createRSS(c *call, q *uapi.ExCreateQP, i *hca.QPInit) unix.Errno {
	switch {
	case i.Type != hca.RawPacket:
		return unix.EINVAL
	case q.CreateFlags != 0, q.MaxRecvWR|q.MaxRecvSGE|q.MaxSendWR != 0, q.IsSRQ != 0:
		return unix.EINVAL
	}
	d, e := driver[uapi.Mlx5CreateQPRSS](c, uapi.Size[uapi.Mlx5CreateQPRSS]())
	switch {
	case e != 0:
		return e
	case d.Flags&^rawFlags != 0:
		return unix.EINVAL
	case d.CompMask != 0:
		return unix.EOPNOTSUPP
	case int(d.RxKeyLen) > len(d.RxHashKey):
		return unix.EINVAL
	}
	i.SendCQ, i.RecvCQ = 0, 0
	i.Flags, i.IndTable = d.Flags, q.RwqIndTblHandle
	i.RSS = &hca.RSS{Function: d.RxHashFunction, Fields: d.RxHashFieldsMask, Key: d.RxHashKey[:d.RxKeyLen]}
	c.req = *q
	qp, e := made(c, func() (*hca.QP, unix.Errno) { return hca.CreateRSS(c.ctx, i) })
	if e != 0 {
		return e
	}
	return first(replyDriver(c, uapi.Mlx5CreateQPResp{}), toldQP(c, uapi.CreateQPResp{QPHandle: qp.Handle}))
}
