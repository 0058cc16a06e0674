//go:build linux

package hca

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// FirstQPN is the lowest QPN of an ordinary QP; QP 0 and 1 belong to the subnet.
const FirstQPN = 0x40

// QP is a queue pair.
type QP struct {
	// Written by create_qp.
	Context  *Context
	PD       *PD
	Handle   uint32
	User     uint64 // the program's handle: the element of its events
	Num      uint32
	UIdx     uint32 // what CQEs carry beside the QPN: the program's index (CQE version 1) or 0
	RecvIdx  uint32 // the same in those of receives, where it is the SRQN with CQE version 0
	Type     QPType
	SendCQ   *CQ // nil for XRC_RECV
	RecvCQ   *CQ // nil for XRC_*
	SRQ      *SRQ
	XRCD     *XRCD // XRC_RECV
	DC       DC
	Striding Striding // of a WQ
	RSS      *RSS     // of one that has no queues, and spreads frames among WQs; else nil
	Cap      QPCap
	SigAll   bool
	Flags    uint32 // driver's creation flags (scatter to CQE, signature …: MLX5_QP_FLAG_*)
	Offloads uint32 // kernel's creation flags (RAW_PACKET: ScatterFCS, StripVLAN)
	Mem      guest.Mem
	DB       uint64 // doorbell record, which the program writes: be32 receive counter, be32 send counter
	SQ       Ring
	RQ       Ring // Count 0: none or SRQ
	UAR      *UAR
	Register int // static doorbell register, -1 for none

	// Written by modify_qp.
	State QPState // and by the engine: to ERR, SQE and SQD
	Attr  QPAttr

	Known QPState // written by modify_qp and query_qp: the state as the driver knows it

	// Written by other commands.
	UDPPort uint16 // of RoCE v2: the source port that the program chose, or 0
	LAGPort uint8  // of a bond: the port that it sends from, from 1 on
	MayCopy bool   // memory, by a command of DevX
	// DrainSigErr moves the QP to SQD, with an event, when a signature is wrong.
	DrainSigErr bool
	mcast       []group
	flows       int      // steering rules that lead here
	opens       int      // XRC_RECV shared by ibv_open_qp
	orphan      bool     // destroyed where it was made, and open elsewhere
	xrcd        *XRCDRef // by which XRCD was named

	// Written by the engine.
	AsyncDelivered uint32 // and by commands that raise an event
	Run            QPRun
}

// QPCap is what a QP was granted.
type QPCap struct {
	SendWR, RecvWR, SendSGE, RecvSGE, Inline uint32
}

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
	SourceQPN                 uint32
	DC                        DC
	IndTable                  uint32 // handle; RSS is set with it
	RSS                       *RSS
}

// OpenedQP is a further handle of an XRC_RECV QP.
type OpenedQP struct {
	qp   *QP
	user uint64
	xrcd *XRCDRef
}

const maxQPN = 1 << 24

// CreateQP makes a QP in RESET.
func (c *Context) CreateQP(i *QPInit) (*QP, unix.Errno) {
	if i.RSS != nil {
		return c.createRSS(i)
	}
	d := c.Device
	lim := &d.Config.Limits
	qp := &QP{Context: c, User: i.User, Register: -1, Type: i.Type, Cap: i.Cap, SigAll: i.SigAll, Flags: i.Flags,
		Mem: c.Mem, DB: i.DB, DC: i.DC}
	var e unix.Errno
	if i.Type == XRCRecv {
		if qp.xrcd, e = c.xrcd(i.XRCD); e != 0 {
			return nil, e
		}
		qp.XRCD = qp.xrcd.x
	} else if qp.PD, e = c.PD(i.PD); e != 0 {
		return nil, e
	}
	for _, q := range []struct {
		h  uint32
		to **CQ
		is bool
	}{{i.SendCQ, &qp.SendCQ, i.Type != XRCRecv}, {i.RecvCQ, &qp.RecvCQ, i.Type != XRCRecv && i.Type != XRCSend}} {
		if q.is {
			if *q.to, e = c.CQ(q.h); e != 0 {
				return nil, e
			}
		}
	}
	if i.SRQ != 0 {
		if qp.SRQ, e = c.SRQ(i.SRQ); e != 0 {
			return nil, e
		}
		if qp.SRQ.XRC || qp.SRQ.Tags > 0 && i.Type != RC {
			return nil, unix.EINVAL
		}
	}
	if e := qp.checkDC(); e != 0 {
		return nil, e
	}
	cap := &i.Cap
	// no receive queue, whatever else is said of it
	if i.SRQ != 0 || i.Type == XRCSend || i.Type == XRCRecv || i.Type == DCI || cap.RecvWR == 0 {
		if qp.Cap.RecvWR, qp.Cap.RecvSGE = 0, 0; i.Type.rings() && i.RQCount|i.RQShift != 0 {
			return nil, unix.EINVAL
		}
		i.RQCount, i.RQShift = 0, 0
	}
	power := func(n uint32) bool { return n&(n-1) == 0 }
	switch {
	case i.CreateFlags != 0 && i.Type != RawPacket, i.CreateFlags&^(ScatterFCS|StripVLAN) != 0:
		return nil, unix.EOPNOTSUPP
	case i.Type == RawPacket && (i.SRQ != 0 || !d.ethernet()):
		return nil, unix.EOPNOTSUPP
	case i.Type == RawPacket && (c.CQEVersion == 0 || i.SQCount|i.RQCount == 0):
		return nil, unix.EINVAL
	case cap.SendWR > uint32(lim.MaxQPWR) || cap.RecvWR > uint32(lim.MaxQPWR) || cap.SendSGE > uint32(lim.MaxSGE) ||
		cap.RecvSGE > uint32(lim.MaxSGE):
		return nil, unix.EINVAL
	case !power(i.SQCount) || !power(i.RQCount) || i.RQShift > 12 || i.RQCount > 0 && i.RQShift < 4:
		return nil, unix.EINVAL
	case i.SQCount > 1<<16 || i.RQCount > 1<<16:
		return nil, unix.EINVAL
	case d.liveQPs >= lim.MaxQP:
		return nil, unix.ENOMEM
	}
	if i.Type.rings() {
		rq := uint64(i.RQCount) << i.RQShift
		qp.RQ = Ring{Base: i.Buf, Count: i.RQCount, Shift: i.RQShift}
		qp.SQ = Ring{Base: i.Buf + rq, Count: i.SQCount, Shift: blockShift}
		if i.Type == RawPacket {
			qp.SQ.Base, qp.Offloads = i.SQBuf, i.CreateFlags
		}
		sq := uint64(i.SQCount) << blockShift
		if rq > 0 && !c.Mem.Mapped(i.Buf, rq, false) || sq > 0 && !c.Mem.Mapped(qp.SQ.Base, sq, false) ||
			!c.Mem.Mapped(i.DB, cqBuffers, false) {
			return nil, unix.EFAULT
		}
	}
	if i.Type != XRCRecv {
		if qp.UIdx, e = c.userIndex(i.UIdx); e != 0 {
			return nil, e
		}
		if qp.RecvIdx = qp.UIdx; c.CQEVersion == 0 && qp.SRQ != nil {
			qp.RecvIdx = qp.SRQ.Num
		}
	}
	if i.Type.rings() {
		if e = c.registerOf(qp, i); e != 0 {
			return nil, e
		}
	}
	if i.Type != DCT && !d.number(qp) {
		qp.dropRegister()
		return nil, unix.ENOMEM
	}
	qp.refs(1)
	qp.xrcd.hold(1)
	d.liveQPs++
	if n := d.Config.LAGPorts; n > 0 { // the kernel deals them out in turn
		qp.LAGPort = uint8(d.dealt%n) + 1
		d.dealt++
	}
	if qp.UAR != nil {
		at, _ := slices.BinarySearchFunc(qp.UAR.QPs, qp.DB, func(o *QP, db uint64) int { return cmp.Compare(o.DB, db) })
		qp.UAR.QPs = slices.Insert(qp.UAR.QPs, at, qp) // in the order of their doorbell records
	}
	qp.Handle = c.add(qp)
	d.Fabric.Engine.QPCreated(qp)
	return qp, 0
}

// number gives a QP its number.
func (d *Device) number(qp *QP) bool {
	n, ok := place(&d.qps, &d.nextQP, 0, int(d.mostQPs()), qp)
	if ok {
		qp.Num = uint32(n) + FirstQPN
	}
	return ok
}

// mostQPs is how many QPNs there are for QPs: more than QPs, so that a number is not used again at once.
func (d *Device) mostQPs() uint32 { return uint32(min(d.Config.Limits.MaxQP+1024, maxQPN-FirstQPN)) }

// rings reports whether a QP of the type has queues and doorbells of its own.
func (t QPType) rings() bool { return t != XRCRecv && t != DCT }

// NoUserIndex is what a library that does not know of user indices gives. C: MLX5_IB_DEFAULT_UIDX.
const NoUserIndex = 0xffffff

// userIndex returns what CQEs of a queue carry in the field of the user index if the program gives i.
func (c *Context) userIndex(i uint32) (uint32, unix.Errno) {
	switch {
	case c.CQEVersion == 0 && i == NoUserIndex:
		return 0, 0
	case c.CQEVersion == 0 || i >= NoUserIndex:
		return 0, unix.EINVAL
	}
	return i, 0
}

// refs counts the QP in the objects that it uses.
func (qp *QP) refs(n int) {
	if qp.PD != nil {
		qp.PD.refs += n
	}
	if qp.SendCQ != nil {
		qp.SendCQ.refs += n
	}
	if qp.RecvCQ != nil {
		qp.RecvCQ.refs += n
	}
	if qp.SRQ != nil {
		qp.SRQ.refs += n
	}
	if qp.XRCD != nil {
		qp.XRCD.users += n
	}
	if qp.RSS != nil {
		qp.RSS.Table.refs += n
	}
}

// OpenQP gives another handle of an XRC_RECV QP of the domain.
func (c *Context) OpenQP(xrcd, qpn uint32, user uint64) (*QP, unix.Errno) {
	r, e := c.xrcd(xrcd)
	if e != 0 {
		return nil, e
	}
	qp := c.Device.QP(qpn)
	if qp == nil || qp.Type != XRCRecv || qp.XRCD != r.x {
		return nil, unix.EINVAL
	}
	o := *qp
	o.Handle = c.add(&OpenedQP{qp, user, r})
	r.hold(1)
	qp.opens++
	return &o, 0
}

// DestroyQP destroys a QP in any state; an XRC_RECV QP lives on while it is open elsewhere.
func (c *Context) DestroyQP(handle uint32) (asyncEvents uint32, e unix.Errno) {
	if o, ok := c.objects[handle].(*OpenedQP); ok {
		delete(c.objects, handle)
		o.xrcd.hold(-1)
		o.qp.opens--
		if o.qp.orphan && o.qp.opens == 0 {
			o.qp.destroy()
		}
		return 0, 0
	}
	qp, e := c.QP(handle)
	switch {
	case e != 0:
		return 0, e
	case (len(qp.mcast) > 0 || qp.flows > 0) && !c.Dead:
		return 0, unix.EBUSY
	}
	delete(c.objects, handle)
	qp.xrcd.hold(-1)
	if qp.opens > 0 {
		qp.orphan = true
	} else {
		qp.destroy()
	}
	return c.drop(qp.User, qp.AsyncDelivered), 0
}

func (qp *QP) destroy() {
	d := qp.Context.Device
	d.Fabric.Engine.QPLeaves(qp)
	for _, g := range qp.mcast {
		d.leave(g.gid, qp)
	}
	d.Fabric.Engine.QPDestroyed(qp)
	if qp.Num != 0 {
		d.qps[qp.Num-FirstQPN] = nil
	}
	d.liveQPs--
	qp.dropRegister()
	if u := qp.UAR; u != nil {
		u.QPs = slices.DeleteFunc(u.QPs, func(o *QP) bool { return o == qp })
	}
	qp.refs(-1)
}

// QP returns the QP with a number, or nil.
func (d *Device) QP(num uint32) *QP { return at(d.qps, num-FirstQPN) }
