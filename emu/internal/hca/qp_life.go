//go:build linux

package hca

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"
)

// QPInit is what a QP is made of. Handles of 0 stand for none.
type QPInit struct {
	User                      uint64
	PD                        uint32
	Type                      QPType
	SendCQ, RecvCQ, SRQ, XRCD uint32
	Cap                       QPCap
	SigAll                    bool
	Flags                     uint32 // the driver's
	CreateFlags               uint32 // the kernel's
	Buf, DB                   uint64
	SQBuf                     uint64 // RAW_PACKET: the send ring, apart from the receive ring at Buf
	SQCount, RQCount, RQShift uint32
	UIdx                      uint32
	UARPage                   int // -1 for none
	Register                  int // dynamic doorbell register, -1 for none
	DC                        DC
	IndTable                  uint32 // handle; RSS is set with it
	RSS                       *RSS
}

// OpenedQP is a further handle of an XRC_RECV QP.
type OpenedQP struct {
	Held
	qp *QP
}

// CreateQP makes a QP in RESET.
func CreateQP(c *Context, i *QPInit) (*QP, unix.Errno) {
	d := c.Device
	qp := &QP{Held: c.held(rankQP, "QP"), Register: -1, Type: i.Type, Cap: i.Cap, SigAll: i.SigAll, Flags: i.Flags,
		Mem: c.Mem, DB: i.DB, DC: i.DC}
	for _, step := range []func(*QPInit) unix.Errno{qp.find, qp.receives, qp.check, qp.ringsOf, qp.indexOf,
		qp.registerOf} {
		if e := step(i); e != 0 {
			return nil, e
		}
	}
	if i.Type != DCT && !d.qps().number(qp, d.Config.Limits.MaxQP) {
		qp.dropRegister()
		return nil, unix.ENOMEM
	}
	d.qps().live++
	qp.XRCD().join(1)
	if n := d.Config.LAGPorts; n > 0 { // the kernel deals them out in turn
		qp.Extra.LAGPort = d.qps().deal(n)
	}
	if qp.UAR != nil {
		at, _ := slices.BinarySearchFunc(qp.UAR.QPs, qp.DB, func(o *QP, db uint64) int { return cmp.Compare(o.DB, db) })
		qp.UAR.QPs = slices.Insert(qp.UAR.QPs, at, qp)
		qp.Use(qp.UAR)
	}
	qp.User, qp.life.end = i.User, qp.end
	c.add(qp)
	qp.engine().QPCreated(qp)
	return qp, 0
}

// find finds the objects that a QP is made with.
func (qp *QP) find(i *QPInit) (e unix.Errno) {
	c := qp.Context
	if i.Type == XRCRecv {
		qp.uses.xrcd, e = xrcdOf(c, i.XRCD)
	} else {
		qp.PD, e = Find[*PD](c, i.PD)
	}
	if e != 0 {
		return e
	}
	if qp.PD != nil {
		qp.Use(qp.PD)
	} else {
		qp.Use(qp.uses.xrcd)
	}
	for _, q := range []struct {
		h  uint32
		to **CQ
		is bool
	}{{i.SendCQ, &qp.SendCQ, i.Type != XRCRecv}, {i.RecvCQ, &qp.RecvCQ, i.Type != XRCRecv && i.Type != XRCSend}} {
		if q.is {
			if *q.to, e = Find[*CQ](c, q.h); e != 0 {
				return e
			}
			qp.Use(*q.to)
		}
	}
	if i.SRQ != 0 {
		if qp.SRQ, e = Find[*SRQ](c, i.SRQ); e != 0 {
			return e
		}
		qp.Use(qp.SRQ)
		if qp.SRQ.XRC || qp.SRQ.Tags > 0 && i.Type != RC {
			return unix.EINVAL
		}
	}
	return 0
}

// receives settles whether a QP has a receive queue. For DC see check_qp_attr of mlx5_ib.
func (qp *QP) receives(i *QPInit) unix.Errno {
	switch {
	case i.Type == DCT && (qp.SRQ == nil || qp.RecvCQ == nil), i.Type == DCI && (qp.Cap.RecvWR|qp.Cap.RecvSGE) != 0:
		return unix.EINVAL
	}
	// no receive queue, whatever else is said of it
	if i.SRQ != 0 || i.Type == XRCSend || i.Type == XRCRecv || i.Type == DCI || i.Cap.RecvWR == 0 {
		if qp.Cap.RecvWR, qp.Cap.RecvSGE = 0, 0; i.Type.rings() && i.RQCount|i.RQShift != 0 {
			return unix.EINVAL
		}
		i.RQCount, i.RQShift = 0, 0
	}
	return 0
}

// check compares what is asked for with what the device has.
func (qp *QP) check(i *QPInit) unix.Errno {
	c, d, cap := qp.Context, qp.Context.Device, &i.Cap
	lim := &d.Config.Limits
	qp.Cap.Inline = min(cap.Inline, uint32(lim.MaxInline))
	power := func(n uint32) bool { return n&(n-1) == 0 }
	switch {
	case i.CreateFlags != 0 && i.Type != RawPacket, i.CreateFlags&^(ScatterFCS|StripVLAN) != 0:
		return unix.EOPNOTSUPP
	case i.Type == RawPacket && (i.SRQ != 0 || !d.ethernet()):
		return unix.EOPNOTSUPP
	case i.Type == RawPacket && (c.CQEVersion == 0 || i.SQCount|i.RQCount == 0):
		return unix.EINVAL
	case cap.SendWR > uint32(lim.MaxQPWR) || cap.RecvWR > uint32(lim.MaxQPWR) || cap.SendSGE > uint32(lim.MaxSGE) ||
		cap.RecvSGE > uint32(lim.MaxSGE):
		return unix.EINVAL
	case !power(i.SQCount) || !power(i.RQCount) || i.RQShift > 12 || i.RQCount > 0 && i.RQShift < 4:
		return unix.EINVAL
	case i.SQCount > 1<<16 || i.RQCount > 1<<16:
		return unix.EINVAL
	case d.qps().live >= lim.MaxQP:
		return unix.ENOMEM
	}
	return 0
}

// ringsOf gives a QP its queues in the program's memory.
func (qp *QP) ringsOf(i *QPInit) unix.Errno {
	if !i.Type.rings() {
		return 0
	}
	rq, sq := uint64(i.RQCount)<<i.RQShift, uint64(i.SQCount)<<blockShift
	qp.RQ = Ring{Base: i.Buf, Count: i.RQCount, Shift: i.RQShift}
	qp.SQ = Ring{Base: i.Buf + rq, Count: i.SQCount, Shift: blockShift}
	if i.Type == RawPacket {
		qp.SQ.Base, qp.Frames.Offloads = i.SQBuf, i.CreateFlags
	}
	m := qp.Mem
	rings := m.Mapped(i.Buf, rq+sq, false)
	if i.Type == RawPacket {
		rings = (rq == 0 || m.Mapped(i.Buf, rq, false)) && (sq == 0 || m.Mapped(qp.SQ.Base, sq, false))
	}
	if !rings && rq+sq > 0 || !m.Mapped(i.DB, cqBuffers, false) {
		return unix.EFAULT
	}
	return 0
}

// indexOf chooses what completions of a QP carry in addition to its number.
func (qp *QP) indexOf(i *QPInit) (e unix.Errno) {
	if i.Type == XRCRecv {
		return 0
	}
	if qp.UIdx, e = userIndex(qp.Context, i.UIdx); e != 0 {
		return e
	}
	if qp.RecvIdx = qp.UIdx; qp.Context.CQEVersion == 0 && qp.SRQ != nil {
		qp.RecvIdx = qp.SRQ.Num
	}
	return 0
}

// OpenQP gives another handle of an XRC_RECV QP of the domain.
func OpenQP(c *Context, xrcd, qpn uint32) (*OpenedQP, unix.Errno) {
	r, e := xrcdOf(c, xrcd)
	if e != 0 {
		return nil, e
	}
	qp := c.Device.QP(qpn)
	if qp == nil || qp.Type != XRCRecv || qp.XRCD() != r.x {
		return nil, unix.EINVAL
	}
	o := &OpenedQP{c.held(rankOpened, "opened QP"), qp}
	o.Use(r)
	o.life.end = func() {
		if qp.uses.opens--; qp.uses.orphan && qp.uses.opens == 0 {
			qp.destroy()
		}
	}
	qp.uses.opens++
	return added(c, o)
}

// AnyQP is what a handle of a QP stands for: the QP, or one that was opened by its number.
type AnyQP interface {
	Object
	// QP returns the QP.
	QP() *QP
}

// QP returns the QP itself.
func (qp *QP) QP() *QP { return qp }

// QP returns the QP that was opened.
func (o *OpenedQP) QP() *QP { return o.qp }

// FindQP also finds a QP that was opened by its number.
func FindQP(c *Context, handle uint32) (*QP, unix.Errno) {
	o, e := Find[AnyQP](c, handle)
	if e != 0 {
		return nil, e
	}
	return o.QP(), 0
}

// end destroys a QP in any state; an XRC_RECV QP lives on while it is open elsewhere.
func (qp *QP) end() {
	if qp.uses.opens > 0 {
		qp.uses.orphan = true
	} else {
		qp.destroy()
	}
}

func (qp *QP) destroy() {
	d := qp.Context.Device
	qp.engine().QPLeaves(qp)
	for _, g := range qp.uses.mcast {
		groupPart.of(&d.parts).leave(g.gid, qp)
	}
	qp.engine().QPDestroyed(qp)
	if qp.Num != 0 {
		d.qps().free(qp.Num - FirstQPN)
	}
	d.qps().live--
	qp.dropRegister()
	if u := qp.UAR; u != nil {
		u.QPs = slices.DeleteFunc(u.QPs, func(o *QP) bool { return o == qp })
	}
	qp.XRCD().join(-1)
}
