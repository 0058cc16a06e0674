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
	Held
	PD     *PD
	Num    uint32
	UIdx   uint32
	XRC    bool
	XRCD   *XRCD
	CQ     *CQ    // XRC and tag matching: its own CQ
	Tags   uint32 // tag matching: places in the list, a power of two; 0 for other SRQs
	Mem    guest.Mem
	DB     uint64 // doorbell record, which the program writes: be32 counter of posted entries
	Ring   Ring   // entries begin with a 16-byte link segment
	MaxSGE uint32

	Limit uint32 // written by modify_srq; the engine sets it to 0 when it was reached

	// Written by the engine.
	Run SRQRun
}

// SRQRun is the engine's state of an SRQ.
type SRQRun struct {
	Next   uint32 // entry at the head of the list: links of entries that the program wrote lead to it
	Used   uint32 // receives consumed
	Posted uint32 // the doorbell record as last seen, extended to 32 bits
	Ring   []byte // entries read ahead: Valid of them from index From
	From   uint32
	Valid  uint32
	Left   uint32 // of the valid ones
	Armed  bool   // limit event
	Tags   TagRun
}

// Has reports whether an entry was read ahead.
func (r *SRQRun) Has(i uint32) bool { return i-r.From < r.Valid }

// Entry returns an entry that was read ahead.
func (r *SRQRun) Entry(i, shift uint32) []byte { return r.Ring[(i-r.From)<<shift:][:1<<shift] }

// Rendezvous is a message whose payload is read from the memory of its sender.
type Rendezvous struct {
	SRQ   *SRQ
	Index uint16   // of the tag
	Data  [16]byte // its data segment
	Head  [32]byte // TMH and RVH
	Read  bool     // the payload is here, the sender is to be told
}

// SRQEngine is what an engine learns of SRQs.
type SRQEngine interface {
	SRQCreated(*SRQ)
	SRQDestroyed(*SRQ)
	SRQLimitArmed(*SRQ)
}

func (s *SRQ) engine() SRQEngine { return s.Context.Device.Fabric.engine.(SRQEngine) }

var srqPart = newPart[numbers[SRQ]]()

func (d *Device) srqs() *numbers[SRQ] { return srqPart.of(&d.parts) }

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
func CreateSRQ(c *Context, i *SRQInit) (*SRQ, unix.Errno) {
	d := c.Device
	lim, all := &d.Config.Limits, d.srqs()
	pd, e := Find[*PD](c, i.PD)
	switch {
	case e != 0:
		return nil, e
	case lim.MaxSRQ == 0 || lim.MaxSRQWR == 0:
		return nil, unix.EOPNOTSUPP
	case i.MaxWR > uint32(lim.MaxSRQWR) || i.MaxSGE > uint32(lim.MaxSRQSGE):
		return nil, unix.EINVAL
	case all.live >= lim.MaxSRQ:
		return nil, unix.ENOMEM
	}
	s := &SRQ{Held: c.held(rankSRQ, "SRQ"), PD: pd, XRC: i.XRC, Mem: c.Mem, DB: i.DB, MaxSGE: i.MaxSGE}
	s.Use(pd)
	if i.XRC {
		r, e := xrcdOf(c, i.XRCD)
		if e != 0 {
			return nil, e
		}
		s.XRCD = r.x
		s.Use(r)
	}
	if i.TM {
		if i.Tags == 0 || i.Tags > MaxTags {
			return nil, unix.EINVAL
		}
		s.Tags = 1 << bits.Len32(i.Tags)
	}
	if i.XRC || i.TM {
		if s.CQ, e = Find[*CQ](c, i.CQ); e != 0 {
			return nil, e
		}
		s.Use(s.CQ)
		if s.UIdx, e = userIndex(c, i.UIdx); e != 0 {
			return nil, e
		}
	}
	// A link segment and the list, rounded up to a power of two; one entry always stays free.
	stride := max(roundUp(16+16*i.MaxSGE), 32)
	s.Ring = Ring{Base: i.Buf, Count: roundUp(i.MaxWR + 1), Shift: uint32(bits.TrailingZeros32(stride))}
	if !c.Mem.Mapped(i.Buf, uint64(s.Ring.Count)<<s.Ring.Shift, false) || !c.Mem.Mapped(i.DB, srqRecord, false) {
		return nil, unix.EFAULT
	}
	num, ok := all.place(1, lim.MaxSRQ+1, s)
	if !ok {
		return nil, unix.ENOMEM
	}
	s.Num = uint32(num)
	if c.CQEVersion == 0 {
		s.UIdx = s.Num
	}
	all.live++
	s.XRCD.join(1)
	s.User, s.life.end = i.User, s.end
	c.add(s)
	s.engine().SRQCreated(s)
	return s, 0
}

// Attributes of SRQ.Modify. C: IB_SRQ_*.
const (
	srqMaxWR = 1
	srqLimit = 2
)

// Modify arms the limit. The size of an mlx5 SRQ does not change.
func (s *SRQ) Modify(mask, limit uint32) unix.Errno {
	switch {
	case mask&srqMaxWR != 0:
		return unix.EINVAL
	case mask&srqLimit != 0:
		if limit >= s.Ring.Count {
			return unix.EINVAL
		}
		s.Limit = limit
		s.engine().SRQLimitArmed(s)
	}
	return 0
}

func (s *SRQ) end() {
	s.engine().SRQDestroyed(s)
	all := s.Context.Device.srqs()
	all.free(s.Num)
	all.live--
	s.XRCD.join(-1)
}

// SRQ returns the SRQ with a number, or nil.
func (d *Device) SRQ(num uint32) *SRQ { return d.srqs().at(num) }
