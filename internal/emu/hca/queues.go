//go:build linux

package hca

import (
	"math/bits"

	"golang.org/x/sys/unix"
)

// CQInit is what a CQ is made of.
type CQInit struct {
	User    uint64
	Entries uint32 // as the library asks: one less than the ring has
	Channel *CompChannel
	Vector  uint32
	Flags   uint32
	Buf, DB uint64
	CQESize uint32
	UAR     int // page index, -1 for the first static one
}

// Flags of CQInit. C: IB_UVERBS_CQ_FLAGS_*.
const (
	cqTimestamps    = 1
	cqIgnoreOverrun = 2
)

const (
	cqBuffers  = 8 // bytes of the doorbell record of a CQ or a QP
	srqRecord  = 4
	blockShift = 6
)

// CreateCQ makes a CQ.
func (c *Context) CreateCQ(i *CQInit) (*CQ, unix.Errno) {
	d := c.Device
	lim := &d.Config.Limits
	switch {
	case i.Flags&^(cqTimestamps|cqIgnoreOverrun) != 0:
		return nil, unix.EOPNOTSUPP
	case i.Entries == 0 || i.Entries > uint32(lim.MaxCQE) || i.CQESize != 64 && i.CQESize != 128:
		return nil, unix.EINVAL
	case d.liveCQs >= lim.MaxCQ:
		return nil, unix.ENOMEM
	}
	n := roundUp(i.Entries + 1)
	if !c.Mem.Mapped(i.Buf, uint64(n)*uint64(i.CQESize), true) || !c.Mem.Mapped(i.DB, cqBuffers, true) {
		return nil, unix.EFAULT
	}
	cq := &CQ{Context: c, User: i.User, Mem: c.Mem, Buf: i.Buf, DB: i.DB, Entries: n, CQESize: i.CQESize,
		Channel: i.Channel, Vector: i.Vector,
		IgnoreOverrun: i.Flags&cqIgnoreOverrun != 0}
	switch {
	case i.UAR >= 0 && i.UAR < len(c.UARs):
		cq.UAR = c.UARs[i.UAR]
	case i.UAR < 0 && c.Registers != nil:
		cq.UAR = c.Registers.static[0]
	}
	num, ok := place(&d.cqs, &d.nextCQ, 1, lim.MaxCQ+1, cq)
	if !ok {
		return nil, unix.ENOMEM
	}
	cq.Num = uint32(num)
	d.liveCQs++
	if cq.Channel != nil {
		cq.Channel.refs++
	}
	cq.Handle = c.add(cq)
	d.Fabric.Engine.CQCreated(cq)
	return cq, 0
}

func roundUp(n uint32) uint32 { return 1 << bits.Len32(n-1) }

// ResizeCQ moves a CQ to another buffer, which must have room for what was not polled. A size that it has already
// changes nothing.
func (c *Context) ResizeCQ(handle, entries uint32, buf uint64, size uint32) (*CQ, unix.Errno) {
	cq, e := c.CQ(handle)
	switch {
	case e != 0:
		return nil, e
	case entries == 0 || entries > uint32(c.Device.Config.Limits.MaxCQE) || size != 64 && size != 128:
		return nil, unix.EINVAL
	}
	n := roundUp(entries + 1)
	if n == cq.Entries {
		return cq, 0
	}
	if !c.Mem.Mapped(buf, uint64(n)*uint64(size), true) {
		return nil, unix.EFAULT
	}
	// One entry stays free, in the new ring and in the old one, which ends with a completion of its own.
	if c.Device.Fabric.Engine.CQUnpolled(cq) >= min(n, cq.Entries) {
		return nil, unix.EINVAL
	}
	old := *cq
	cq.Buf, cq.Entries, cq.CQESize = buf, n, size
	c.Device.Fabric.Engine.CQResized(cq, old.Buf, old.Entries, old.CQESize)
	return cq, 0
}

// MaxCQPeriod is the longest period of moderation, in µs. C: MLX5_MAX_CQ_PERIOD.
const MaxCQPeriod = 1<<12 - 1

// ModifyCQ sets the moderation.
func (c *Context) ModifyCQ(handle uint32, count, period uint16) unix.Errno {
	cq, e := c.CQ(handle)
	if e == 0 && period > MaxCQPeriod {
		e = unix.EINVAL
	}
	if e == 0 {
		cq.ModCount, cq.ModPeriod = count, period
	}
	return e
}

// DestroyCQ destroys a CQ that no queue uses, and returns how many of its events were delivered. Those that the program
// has not read are taken back.
func (c *Context) DestroyCQ(handle uint32) (compEvents, asyncEvents uint32, e unix.Errno) {
	cq, e := c.CQ(handle)
	switch {
	case e != 0:
		return 0, 0, e
	case cq.refs > 0 && !c.Dead:
		return 0, 0, unix.EBUSY
	}
	c.Device.Fabric.Engine.CQDestroyed(cq)
	c.Device.cqs[cq.Num] = nil
	c.Device.liveCQs--
	delete(c.objects, handle)
	if ch := cq.Channel; ch != nil {
		ch.refs--
		if !c.Dead && cq.Delivered > 0 {
			cq.Delivered -= uint32(ch.Pipe.Drop(c.PID, matches(cq.User), 8))
		}
	}
	return cq.Delivered, c.drop(cq.User, cq.AsyncDelivered), 0
}

// SRQInit is what an SRQ is made of.
type SRQInit struct {
	User                 uint64
	PD                   uint32
	XRC                  bool
	XRCD, CQ             uint32
	MaxWR, MaxSGE, Limit uint32
	Buf, DB              uint64
	Flags, UIdx          uint32
}

// CreateSRQ makes a shared receive queue.
func (c *Context) CreateSRQ(i *SRQInit) (*SRQ, unix.Errno) {
	d := c.Device
	lim := &d.Config.Limits
	pd, e := c.PD(i.PD)
	switch {
	case e != 0:
		return nil, e
	case i.MaxWR == 0 || i.MaxWR > uint32(lim.MaxSRQWR) || i.MaxSGE > uint32(lim.MaxSRQSGE) || i.Limit > i.MaxWR:
		return nil, unix.EINVAL
	case d.liveSRQs >= lim.MaxSRQ:
		return nil, unix.ENOMEM
	}
	s := &SRQ{Context: c, PD: pd, User: i.User, XRC: i.XRC, Mem: c.Mem, DB: i.DB, MaxSGE: i.MaxSGE, Limit: i.Limit}
	if i.XRC {
		r, e := find[*XRCDRef](c, i.XRCD)
		if e != 0 {
			return nil, e
		}
		if s.CQ, e = c.CQ(i.CQ); e != 0 {
			return nil, e
		}
		s.XRCD = r.x
		if s.UIdx, e = c.userIndex(i.UIdx); e != 0 {
			return nil, e
		}
	}
	// A link segment and the list, rounded up to a power of two; one entry always stays free.
	stride := max(roundUp(16+16*i.MaxSGE), 32)
	s.Ring = Ring{Base: i.Buf, Count: roundUp(i.MaxWR + 1), Shift: uint32(bits.TrailingZeros32(stride))}
	s.MaxSGE = (stride - 16) / 16
	if !c.Mem.Mapped(i.Buf, uint64(s.Ring.Count)<<s.Ring.Shift, false) || !c.Mem.Mapped(i.DB, srqRecord, false) {
		return nil, unix.EFAULT
	}
	num, ok := place(&d.srqs, &d.nextSRQ, 1, lim.MaxSRQ+1, s)
	if !ok {
		return nil, unix.ENOMEM
	}
	s.Num = uint32(num)
	if c.CQEVersion == 0 {
		s.UIdx = s.Num
	}
	d.liveSRQs++
	pd.refs++
	if s.XRC {
		s.XRCD.users++
		s.CQ.refs++
	}
	s.Handle = c.add(s)
	d.Fabric.Engine.SRQCreated(s)
	return s, 0
}

// Attributes of ModifySRQ. C: IB_SRQ_*.
const (
	srqMaxWR = 1
	srqLimit = 2
)

// ModifySRQ arms the limit. The size of an mlx5 SRQ does not change.
func (c *Context) ModifySRQ(handle, mask, maxWR, limit uint32) unix.Errno {
	s, e := c.SRQ(handle)
	switch {
	case e != 0:
		return e
	case mask&srqMaxWR != 0:
		return unix.EINVAL
	case mask&srqLimit != 0:
		if limit >= s.Ring.Count {
			return unix.EINVAL
		}
		s.Limit = limit
		c.Device.Fabric.Engine.SRQLimitArmed(s)
	}
	_ = maxWR
	return 0
}

// DestroySRQ destroys an SRQ that no QP uses.
func (c *Context) DestroySRQ(handle uint32) (asyncEvents uint32, e unix.Errno) {
	s, e := c.SRQ(handle)
	switch {
	case e != 0:
		return 0, e
	case s.refs > 0 && !c.Dead:
		return 0, unix.EBUSY
	}
	c.Device.Fabric.Engine.SRQDestroyed(s)
	c.Device.srqs[s.Num] = nil
	c.Device.liveSRQs--
	s.PD.refs--
	if s.XRC {
		s.XRCD.users--
		s.CQ.refs--
	}
	delete(c.objects, handle)
	return c.drop(s.User, s.AsyncDelivered), 0
}
