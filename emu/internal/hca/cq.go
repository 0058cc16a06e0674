//go:build linux

package hca

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// CQ is a completion queue.
type CQ struct {
	// Written by create_cq.
	Context       *Context
	Handle        uint32
	User          uint64
	Num           uint32 // CQN
	Mem           guest.Mem
	DB            uint64 // doorbell record, which the program writes: be32 consumer index, be32 arm word
	Channel       *CompChannel
	Vector        uint32
	UAR           *UAR // arming goes through offset 0x20 of this page, or of any page of the context when nil
	IgnoreOverrun bool

	// Written by create_cq and resize_cq.
	Buf     uint64 // the ring, which the engine writes
	Entries uint32 // of the ring, a power of two
	CQESize uint32 // 64 or 128
	Format  uint32 // of receives in blocks, one of Format*; 0 without compression
	Pad     bool   // all 128 bytes are written, of those in front of a plain completion as zeros

	// Written by modify_cq. Moderation: announce after this many completions or this many microseconds; without either,
	// each.
	ModCount, ModPeriod uint16

	refs int // queues that complete here; written by their commands

	// Written by the engine.
	Delivered      uint32 // completion events put on the channel, for destroy
	AsyncDelivered uint32
	Run            CQRun
}

// CQInit is what a CQ is made of.
type CQInit struct {
	User    uint64
	Entries uint32 // as the library asks: one less than the ring has
	Channel *CompChannel
	Vector  uint32
	Flags   uint32
	Buf, DB uint64
	CQESize uint32
	Format  uint32
	Pad     bool
	UAR     int // page index, -1 for the first static one
}

// Formats of receives in blocks of compressed completions. C: enum mlx5_ib_cqe_comp_res_format.
const (
	FormatHash     = 1 << 0
	FormatChecksum = 1 << 1
	FormatStride   = 1 << 2
)

// MaxBlock is how many completions a block has at most. C: cqe_compression_max_num.
const MaxBlock = 64

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
	case i.UAR >= 0 && at(c.UARs, uint32(i.UAR)) == nil && c.DynamicUAR(uint32(i.UAR)) == nil:
		return nil, unix.EINVAL // the adapter's answer
	}
	n := roundUp(i.Entries + 1)
	if !c.Mem.Mapped(i.Buf, uint64(n)*uint64(i.CQESize), true) || !c.Mem.Mapped(i.DB, cqBuffers, true) {
		return nil, unix.EFAULT
	}
	cq := &CQ{Context: c, User: i.User, Mem: c.Mem, Buf: i.Buf, DB: i.DB, Entries: n, CQESize: i.CQESize,
		Format: i.Format, Pad: i.Pad,
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

// ResizeCQ moves a CQ to another buffer, which must have room for what was not polled. A size that it has already
// changes nothing.
func (c *Context) ResizeCQ(handle, entries uint32, buf uint64, size uint32) (*CQ, unix.Errno) {
	cq, e := c.CQ(handle)
	switch {
	case e != 0:
		return nil, e
	case entries == 0 || entries > uint32(c.Device.Config.Limits.MaxCQE) || size != 64 && size != 128:
		return nil, unix.EINVAL
	case cq.Format != 0: // what becomes of blocks is not documented
		return nil, unix.EOPNOTSUPP
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

// CQ returns the CQ with a number, or nil.
func (d *Device) CQ(num uint32) *CQ { return at(d.cqs, num) }
