//go:build linux

package hca

import (
	"slices"

	"golang.org/x/sys/unix"
)

// WQ is a receive queue without a QP.
type WQ struct {
	Handle uint32
	Queue  *QP     // what the engine knows of it; its number is the WQ's
	known  WQState // of the last modify_wq: the state as the driver knows it
	refs   int     // places in indirection tables
}

// WQState is a WQ's state, with the kernel's numbers.
type WQState uint32

// States.
const (
	WQReset WQState = iota
	WQReady
	WQError
)

// State returns the state, in which the device may have put it.
func (w *WQ) State() WQState {
	switch w.Queue.State {
	case Reset:
		return WQReset
	case Err:
		return WQError
	}
	return WQReady
}

// Flags of a WQ. C: enum ib_uverbs_wq_flags.
const (
	wqStripVLAN  = 1 << 0
	wqScatterFCS = 1 << 1
	wqPadWrites  = 1 << 3
	wqSignature  = 1 << 0 // the driver's
)

// Striding is how a receive of a WQ holds several frames, each in strides of its own. Count 0: it does not.
type Striding struct {
	Log    uint32 // of the bytes of a stride
	Count  uint32 // strides of a receive
	Indent uint64 // bytes into the first stride that a frame begins
}

// Bounds of it, as logarithms. C: MLX5_MIN_SINGLE_STRIDE_LOG_NUM_BYTES and its like.
const (
	MinLogStride, MaxLogStride   = 6, 13
	MinLogStrides, MaxLogStrides = 9, 16

	wqStriding = 1 << 0 // of CompMask
)

// WQInit is what a WQ is made of.
type WQInit struct {
	User           uint64
	PD, CQ         uint32
	MaxWR, MaxSGE  uint32
	Flags          uint32
	DriverFlags    uint32
	Buf, DB        uint64
	Count, Shift   uint32
	UIdx           uint32
	Type, CompMask uint32
	LogStride      uint32 // with CompMask: of its bytes
	LogStrides     uint32
	Shifted        bool // by two bytes
}

// Limits of what this device makes for frames.
const (
	MaxWQ           = 1 << 16
	MaxIndTables    = 1 << 12
	MaxIndTableSize = 1 << 11
)

// CreateWQ makes a WQ in RESET.
func (c *Context) CreateWQ(i *WQInit) (*WQ, unix.Errno) {
	d := c.Device
	power := func(n uint32) bool { return n&(n-1) == 0 }
	size := uint64(i.Count) << (i.Shift & 63)
	switch {
	case i.Type != 0, i.Count == 0:
		return nil, unix.EINVAL
	case !d.ethernet(), i.Flags&^(wqStripVLAN|wqScatterFCS) != 0, i.CompMask&^wqStriding != 0:
		return nil, unix.EOPNOTSUPP
	case i.CompMask != 0 && (i.LogStride < MinLogStride || i.LogStride > MaxLogStride || i.LogStrides < MinLogStrides ||
		i.LogStrides > MaxLogStrides || i.Shift < 5):
		return nil, unix.EINVAL
	case i.MaxWR > uint32(d.Config.Limits.MaxQPWR), !power(i.Count), i.Count > 1<<16, i.Shift < 4, i.Shift > 12:
		return nil, unix.EINVAL
	case d.liveQPs >= d.Config.Limits.MaxQP, d.liveWQs >= MaxWQ:
		return nil, unix.ENOMEM
	}
	q := &QP{Context: c, User: i.User, Register: -1, Type: WorkQueue, Mem: c.Mem, DB: i.DB,
		Flags: i.DriverFlags & wqSignature, Cap: QPCap{RecvWR: i.MaxWR, RecvSGE: i.MaxSGE},
		RQ: Ring{Base: i.Buf, Count: i.Count, Shift: i.Shift}}
	var e unix.Errno
	if q.PD, e = c.PD(i.PD); e != 0 {
		return nil, e
	}
	if q.RecvCQ, e = c.CQ(i.CQ); e != 0 {
		return nil, e
	}
	if q.RecvIdx, e = c.userIndex(i.UIdx); e != 0 {
		return nil, e
	}
	q.UIdx = q.RecvIdx
	if !c.Mem.Mapped(i.Buf, size, false) || !c.Mem.Mapped(i.DB, cqBuffers, false) {
		return nil, unix.EFAULT
	}
	if i.CompMask != 0 {
		q.Striding = Striding{Log: i.LogStride, Count: 1 << i.LogStrides}
		if i.Shifted {
			q.Striding.Indent = 2
		}
	}
	if i.Flags&wqStripVLAN != 0 {
		q.Offloads |= StripVLAN
	}
	if i.Flags&wqScatterFCS != 0 {
		q.Offloads |= ScatterFCS
	}
	if !d.number(q) {
		return nil, unix.ENOMEM
	}
	w := &WQ{Queue: q}
	d.liveQPs++
	d.liveWQs++
	q.refs(1)
	w.Handle = c.add(w)
	d.Fabric.Engine.QPCreated(q)
	return w, 0
}

// Attributes of ModifyWQ. C: enum ib_wq_attr_mask.
const (
	WQAttrState    = 1 << 0
	WQAttrCurState = 1 << 1
	WQAttrFlags    = 1 << 2
)

// WQModify is what modify_wq says.
type WQModify struct {
	Mask             uint32
	State, CurState  WQState
	Flags, FlagsMask uint32
}

// ModifyWQ moves a WQ to another state, or changes its flags.
func (c *Context) ModifyWQ(handle uint32, m *WQModify) unix.Errno {
	w, e := find[*WQ](c, handle)
	if e != 0 {
		return e
	}
	q, from := w.Queue, w.known
	if m.Mask&WQAttrCurState != 0 {
		from = m.CurState
	}
	to := from
	if m.Mask&WQAttrState != 0 {
		to = m.State
	}
	switch {
	case m.Mask == 0, m.Mask&^(WQAttrState|WQAttrCurState|WQAttrFlags) != 0, from > WQError, to > WQError:
		return unix.EINVAL
	case m.Mask&WQAttrFlags != 0 && m.FlagsMask&wqPadWrites != 0:
		return unix.EOPNOTSUPP
	// the adapter's: a bad state
	case from != w.State(), from == WQReset && to == WQError, from == WQError && to == WQReady:
		return unix.EINVAL
	}
	w.known = to
	if m.Mask&WQAttrFlags != 0 && m.FlagsMask&wqStripVLAN != 0 {
		q.Offloads &^= StripVLAN
		if m.Flags&wqStripVLAN != 0 {
			q.Offloads |= StripVLAN
		}
	}
	if to != from {
		was := q.State
		q.State = [...]QPState{Reset, RTR, Err}[to]
		c.Device.Fabric.Engine.QPModified(q, was, q.State)
	}
	return 0
}

// DestroyWQ destroys a WQ that no table has.
func (c *Context) DestroyWQ(handle uint32) (asyncEvents uint32, e unix.Errno) {
	w, e := find[*WQ](c, handle)
	switch {
	case e != 0:
		return 0, e
	case w.refs > 0 && !c.Dead:
		return 0, unix.EBUSY
	}
	delete(c.objects, handle)
	c.Device.liveWQs--
	w.Queue.destroy()
	return c.drop(w.Queue.User, w.Queue.AsyncDelivered), 0
}

// IndTable is an indirection table.
type IndTable struct {
	Handle, Num uint32
	WQs         []*WQ
	refs        int
}

// CreateIndTable makes a table of WQs, 1<<log of them.
func (c *Context) CreateIndTable(log uint32, handles []uint32) (*IndTable, unix.Errno) {
	d := c.Device
	t := &IndTable{}
	for _, h := range handles {
		w, e := find[*WQ](c, h)
		if e != 0 {
			return nil, e
		}
		t.WQs = append(t.WQs, w)
	}
	switch {
	case len(t.WQs) > MaxIndTableSize:
		return nil, unix.EINVAL
	case d.liveTables >= MaxIndTables:
		return nil, unix.ENOMEM
	}
	for _, w := range t.WQs {
		w.refs++
	}
	d.liveTables++
	d.nextTable++
	t.Num = d.nextTable & 0xffffff
	t.Handle = c.add(t)
	return t, 0
}

// DestroyIndTable destroys a table that no QP uses.
func (c *Context) DestroyIndTable(handle uint32) unix.Errno {
	t, e := find[*IndTable](c, handle)
	switch {
	case e != 0:
		return e
	case t.refs > 0 && !c.Dead:
		return unix.EBUSY
	}
	delete(c.objects, handle)
	for _, w := range t.WQs {
		w.refs--
	}
	c.Device.liveTables--
	return 0
}

// Fields of a hash. C: enum mlx5_rx_hash_fields.
const (
	HashSrcIPv4, HashDstIPv4       = 1 << 0, 1 << 1
	HashSrcIPv6, HashDstIPv6       = 1 << 2, 1 << 3
	HashSrcPortTCP, HashDstPortTCP = 1 << 4, 1 << 5
	HashSrcPortUDP, HashDstPortUDP = 1 << 6, 1 << 7

	HashFields   = 1<<8 - 1
	HashToeplitz = 1 << 0
	HashKeySize  = 40
)

// RSS is how a QP spreads frames.
type RSS struct {
	Table    *IndTable
	Key      []byte
	Function uint8
	Fields   uint64
}

// check tells what the kernel refuses of a hash.
func (r *RSS) check() unix.Errno {
	any := func(mask uint64) bool { return r.Fields&mask != 0 }
	switch {
	case r.Function != HashToeplitz:
		return unix.EOPNOTSUPP
	case len(r.Key) != HashKeySize:
		return unix.EINVAL
	case r.Fields == 0 && len(r.Table.WQs) > 1:
		return unix.EINVAL
	case any(HashSrcIPv4|HashDstIPv4) && any(HashSrcIPv6|HashDstIPv6):
		return unix.EINVAL
	case any(HashSrcPortTCP|HashDstPortTCP) && any(HashSrcPortUDP|HashDstPortUDP):
		return unix.EINVAL
	case r.Fields&^HashFields != 0: // what it says that it has
		return unix.EOPNOTSUPP
	}
	return 0
}

// createRSS makes a QP that has no queues and no number, only rules that lead to it.
func (c *Context) createRSS(i *QPInit) (*QP, unix.Errno) {
	qp := &QP{Context: c, User: i.User, Register: -1, Type: i.Type, Flags: i.Flags, RSS: i.RSS, Mem: c.Mem}
	var e unix.Errno
	if qp.PD, e = c.PD(i.PD); e != 0 {
		return nil, e
	}
	if qp.RSS.Table, e = find[*IndTable](c, i.IndTable); e != 0 {
		return nil, e
	}
	if e = qp.RSS.check(); e != 0 {
		return nil, e
	}
	qp.RSS.Key = slices.Clone(qp.RSS.Key)
	qp.refs(1)
	c.Device.liveQPs++
	qp.Handle = c.add(qp)
	return qp, 0
}
