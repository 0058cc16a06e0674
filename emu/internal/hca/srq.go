//go:build linux

package hca

import (
	"math/bits"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// SRQ is a shared receive queue.
type SRQ struct {
	// Written by create_srq.
	Context *Context
	PD      *PD
	Handle  uint32
	User    uint64
	Num     uint32
	UIdx    uint32
	XRC     bool
	XRCD    *XRCD
	CQ      *CQ    // XRC and tag matching: its own CQ
	Tags    uint32 // tag matching: places in the list, a power of two; 0 for other SRQs
	Mem     guest.Mem
	DB      uint64 // doorbell record, which the program writes: be32 counter of posted entries
	Ring    Ring   // entries begin with a 16-byte link segment
	MaxSGE  uint32

	Limit uint32 // written by modify_srq; the engine sets it to 0 when it was reached

	refs int      // QPs that receive here; written by their commands
	xrcd *XRCDRef // by which XRCD was named

	// Written by the engine.
	AsyncDelivered uint32
	Run            SRQRun
}

// SRQInit is what an SRQ is made of.
type SRQInit struct {
	User           uint64
	PD             uint32
	XRC, TM        bool
	XRCD, CQ, Tags uint32
	MaxWR, MaxSGE  uint32
	Buf, DB        uint64
	UIdx           uint32
}

// Limits of tag matching, those of ConnectX-5.
const (
	MaxTags       = 127
	MaxRendezvous = 64 // bytes of a rendezvous request
)

// CreateSRQ makes a shared receive queue.
func (c *Context) CreateSRQ(i *SRQInit) (*SRQ, unix.Errno) {
	d := c.Device
	lim := &d.Config.Limits
	pd, e := c.PD(i.PD)
	switch {
	case e != 0:
		return nil, e
	case lim.MaxSRQ == 0 || lim.MaxSRQWR == 0:
		return nil, unix.EOPNOTSUPP
	case i.MaxWR > uint32(lim.MaxSRQWR) || i.MaxSGE > uint32(lim.MaxSRQSGE):
		return nil, unix.EINVAL
	case d.liveSRQs >= lim.MaxSRQ:
		return nil, unix.ENOMEM
	}
	s := &SRQ{Context: c, PD: pd, User: i.User, XRC: i.XRC, Mem: c.Mem, DB: i.DB, MaxSGE: i.MaxSGE}
	if i.XRC {
		if s.xrcd, e = c.xrcd(i.XRCD); e != 0 {
			return nil, e
		}
		s.XRCD = s.xrcd.x
	}
	if i.TM {
		if i.Tags == 0 || i.Tags > MaxTags {
			return nil, unix.EINVAL
		}
		s.Tags = 1 << bits.Len32(i.Tags)
	}
	if i.XRC || i.TM {
		if s.CQ, e = c.CQ(i.CQ); e != 0 {
			return nil, e
		}
		if s.UIdx, e = c.userIndex(i.UIdx); e != 0 {
			return nil, e
		}
	}
	// A link segment and the list, rounded up to a power of two; one entry always stays free.
	stride := max(roundUp(16+16*i.MaxSGE), 32)
	s.Ring = Ring{Base: i.Buf, Count: roundUp(i.MaxWR + 1), Shift: uint32(bits.TrailingZeros32(stride))}
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
	s.xrcd.hold(1)
	if s.XRCD != nil {
		s.XRCD.users++
	}
	if s.CQ != nil {
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
	s.xrcd.hold(-1)
	if s.XRCD != nil {
		s.XRCD.users--
	}
	if s.CQ != nil {
		s.CQ.refs--
	}
	delete(c.objects, handle)
	return c.drop(s.User, s.AsyncDelivered), 0
}

// SRQ returns the SRQ with a number, or nil.
func (d *Device) SRQ(num uint32) *SRQ { return at(d.srqs, num) }
