//go:build linux

package hca

import "golang.org/x/sys/unix"

// WQ is a receive queue without a QP.
type WQ struct {
	Held
	Queue *QP     // what the engine knows of it; its number is the WQ's
	known WQState // of the last modify_wq: the state as the driver knows it
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

// Bounds of [Striding], as logarithms. C: MLX5_MIN_SINGLE_STRIDE_LOG_NUM_BYTES and its like.
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

// wqs is how many WQs and tables of them a device has.
type wqs struct {
	queues, tables int
	lastTable      uint32 // number
}

var wqPart = newPart[wqs]()

func (d *Device) wqs() *wqs { return wqPart.of(&d.parts) }

// CreateWQ makes a WQ in RESET.
func CreateWQ(c *Context, i *WQInit) (*WQ, unix.Errno) {
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
	case d.qps().live >= d.Config.Limits.MaxQP, d.wqs().queues >= MaxWQ:
		return nil, unix.ENOMEM
	}
	q := &QP{Held: Held{Context: c, User: i.User}, Register: -1, Type: WorkQueue, Mem: c.Mem, DB: i.DB,
		Flags: i.DriverFlags & wqSignature, Cap: QPCap{RecvWR: i.MaxWR, RecvSGE: i.MaxSGE},
		RQ: Ring{Base: i.Buf, Count: i.Count, Shift: i.Shift}}
	var e unix.Errno
	if q.PD, e = Find[*PD](c, i.PD); e != 0 {
		return nil, e
	}
	if q.RecvCQ, e = Find[*CQ](c, i.CQ); e != 0 {
		return nil, e
	}
	if q.RecvIdx, e = userIndex(c, i.UIdx); e != 0 {
		return nil, e
	}
	q.UIdx = q.RecvIdx
	if !c.Mem.Mapped(i.Buf, size, false) || !c.Mem.Mapped(i.DB, cqBuffers, false) {
		return nil, unix.EFAULT
	}
	if i.CompMask != 0 {
		q.Frames.Striding = Striding{Log: i.LogStride, Count: 1 << i.LogStrides}
		if i.Shifted {
			q.Frames.Striding.Indent = 2
		}
	}
	if i.Flags&wqStripVLAN != 0 {
		q.Frames.Offloads |= StripVLAN
	}
	if i.Flags&wqScatterFCS != 0 {
		q.Frames.Offloads |= ScatterFCS
	}
	if !d.qps().number(q, d.Config.Limits.MaxQP) {
		return nil, unix.ENOMEM
	}
	w := &WQ{Held: c.held(rankWQ, "WQ"), Queue: q}
	w.Use(q.PD, q.RecvCQ)
	w.User, w.life.end = i.User, w.end
	d.qps().live++
	d.wqs().queues++
	c.add(w)
	q.engine().QPCreated(q)
	return w, 0
}

// Attributes of WQ.Modify. C: enum ib_wq_attr_mask.
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

// Modify moves the WQ to another state, or changes its flags.
func (w *WQ) Modify(m *WQModify) unix.Errno {
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
		q.Frames.Offloads &^= StripVLAN
		if m.Flags&wqStripVLAN != 0 {
			q.Frames.Offloads |= StripVLAN
		}
	}
	if to != from {
		was := q.State
		q.State = [...]QPState{Reset, RTR, Err}[to]
		q.engine().QPModified(q, was, q.State)
	}
	return 0
}

// end has the events of the queue be those of the WQ.
func (w *WQ) end() {
	w.Context.Device.wqs().queues--
	w.Queue.destroy()
	w.AsyncDelivered = w.Queue.AsyncDelivered
}
