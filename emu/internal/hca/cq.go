//go:build linux

package hca

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// CQ is a completion queue.
type CQ struct {
	// Written by create_cq.
	Held
	Num           uint32 // CQN
	Mem           guest.Mem
	DB            uint64      // doorbell record, which the program writes: be32 consumer index, be32 arm word
	Channel       *guest.Pipe // that completions are announced on
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

	// Written by the engine.
	Delivered uint32 // completion events put on the channel; once it is destroyed, those that the program has read
	Run       CQRun
}

// CQRun is the engine's state of a CQ.
type CQRun struct {
	PI      uint32 // next entry to write
	CI      uint32 // consumer index as last seen, extended to 32 bits
	LastSol uint32 // PI after the last solicited completion
	Told    uint32 // PI at the last event: what is below was announced
	Armed   bool
	SolOnly bool   // armed for solicited completions
	SN      uint8  // of the next arming, 2 bits
	LastArm uint32 // arm word as last seen
	ModN    uint32 // completions since the last event (moderation)
	Timer   uint32 // sequence number of the timer that counts
	Dead    bool   // destroyed, or its ring cannot be written: gets no completions
	Broken  bool   // in error: keeps what it has, and gets no more
	Held    bool   // completions are delayed
	Timed   bool   // the moderation timer runs

	Blocks []Block // strict mode: that were written and are not consumed, in order
}

// Block is completions that were written as one.
type Block struct{ At, Count uint32 }

// CQEngine is what an engine learns of CQs, and is asked of them.
type CQEngine interface {
	CQCreated(*CQ)
	CQDestroyed(*CQ)
	// CQUnpolled returns how many completions the program has not polled.
	CQUnpolled(*CQ) uint32
	// CQResized comes when cq.Buf, cq.Entries and cq.CQESize are new ones and the RESIZE_CQ completion is to be written
	// into the OLD ring.
	CQResized(cq *CQ, oldBuf uint64, oldEntries, oldSize uint32)
}

func (cq *CQ) engine() CQEngine { return cq.Context.Device.Fabric.engine.(CQEngine) }

var cqPart = newPart[numbers[CQ]]()

func (d *Device) cqs() *numbers[CQ] { return cqPart.of(&d.parts) }

// CQInit is what a CQ is made of.
type CQInit struct {
	User    uint64
	Entries uint32 // as the library asks: one less than the ring has
	Channel *guest.Pipe
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
func CreateCQ(c *Context, i *CQInit) (*CQ, unix.Errno) {
	d := c.Device
	lim, all, registers := &d.Config.Limits, d.cqs(), RegistersOf(c)
	switch {
	case i.Flags&^(cqTimestamps|cqIgnoreOverrun) != 0:
		return nil, unix.EOPNOTSUPP
	case i.Entries == 0 || i.Entries > uint32(lim.MaxCQE) || i.CQESize != 64 && i.CQESize != 128:
		return nil, unix.EINVAL
	case all.live >= lim.MaxCQ:
		return nil, unix.ENOMEM
	case i.UAR >= 0 && UARAt(c, i.UAR) == nil && registers.DynamicUAR(uint32(i.UAR)) == nil:
		return nil, unix.EINVAL // the adapter's answer
	}
	n := roundUp(i.Entries + 1)
	if !c.Mem.Mapped(i.Buf, uint64(n)*uint64(i.CQESize), true) || !c.Mem.Mapped(i.DB, cqBuffers, true) {
		return nil, unix.EFAULT
	}
	cq := &CQ{Held: c.held(rankCQ, "CQ"), Mem: c.Mem, Buf: i.Buf, DB: i.DB, Entries: n, CQESize: i.CQESize,
		Format: i.Format, Pad: i.Pad, Channel: i.Channel, Vector: i.Vector,
		IgnoreOverrun: i.Flags&cqIgnoreOverrun != 0, UAR: UARAt(c, i.UAR)}
	if i.UAR < 0 && registers.Static() > 0 {
		cq.UAR = registers.static[0]
	}
	num, ok := all.place(1, lim.MaxCQ+1, cq)
	if !ok {
		return nil, unix.ENOMEM
	}
	cq.Num = uint32(num)
	all.live++
	cq.User, cq.life.end = i.User, cq.end
	c.add(cq)
	cq.engine().CQCreated(cq)
	return cq, 0
}

// Resize moves the CQ to another buffer, which must have room for what was not polled. A size that it has already
// changes nothing.
func (cq *CQ) Resize(entries uint32, buf uint64, size uint32) unix.Errno {
	c := cq.Context
	switch {
	case entries == 0 || entries > uint32(c.Device.Config.Limits.MaxCQE) || size != 64 && size != 128:
		return unix.EINVAL
	case cq.Format != 0: // what becomes of blocks is not documented
		return unix.EOPNOTSUPP
	}
	n := roundUp(entries + 1)
	if n == cq.Entries {
		return 0
	}
	if !c.Mem.Mapped(buf, uint64(n)*uint64(size), true) {
		return unix.EFAULT
	}
	// One entry stays free, in the new ring and in the old one, which ends with a completion of its own.
	if cq.engine().CQUnpolled(cq) >= min(n, cq.Entries) {
		return unix.EINVAL
	}
	old := *cq
	cq.Buf, cq.Entries, cq.CQESize = buf, n, size
	cq.engine().CQResized(cq, old.Buf, old.Entries, old.CQESize)
	return 0
}

// MaxCQPeriod is the longest period of moderation, in µs. C: MLX5_MAX_CQ_PERIOD.
const MaxCQPeriod = 1<<12 - 1

// Modify sets the moderation.
func (cq *CQ) Modify(count, period uint16) unix.Errno {
	if period > MaxCQPeriod {
		return unix.EINVAL
	}
	cq.ModCount, cq.ModPeriod = count, period
	return 0
}

// end takes back the completion events that the program has not read.
func (cq *CQ) end() {
	c := cq.Context
	cq.engine().CQDestroyed(cq)
	all := c.Device.cqs()
	all.free(cq.Num)
	all.live--
	if cq.Channel != nil && !c.Dead && cq.Delivered > 0 {
		cq.Delivered -= uint32(cq.Channel.Drop(matches(cq.User), 8))
	}
}

// Notify puts a completion event on the CQ's channel.
func (cq *CQ) Notify() {
	if cq.Channel == nil || cq.Context.Dead {
		return
	}
	var rec [8]byte
	binary.NativeEndian.PutUint64(rec[:], cq.User)
	if cq.Channel.Put(rec[:]) == nil {
		cq.Delivered++
	}
}

// EachCQ calls do for every CQ of the context.
func EachCQ(c *Context, do func(*CQ)) {
	c.Device.cqs().each(func(cq *CQ) {
		if cq.Context == c {
			do(cq)
		}
	})
}
