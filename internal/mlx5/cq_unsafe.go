package mlx5

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// CQConfig describes a completion queue that libmlx5 has created.
type CQConfig struct {
	Num     uint32 // CQN
	Buf     unsafe.Pointer
	Entries uint32 // a power of two
	Size    uint32 // bytes of an entry: 64 or 128
	DBRec   unsafe.Pointer
	UAR     unsafe.Pointer
	QPs     *Table

	Ethernet bool // the device's ports are: completions have no service level, but a VLAN tag
}

// CQ is a completion queue. The caller holds its lock during all methods except Empty, Idle and Event.
type CQ struct {
	buf     unsafe.Pointer // the 64 bytes of entry 0 that are read; the device writes entries
	ring    unsafe.Pointer // buf while an empty ring means that there is no completion, else nil; look sets it
	mask    uint32         // entries - 1
	log     uint8          // log2 of the entries
	stride  uintptr        // of entries: 64 or 128
	hidden  bool           // between Hide and Show
	ci      atomic.Uint32  // consumer index, free running: entries consumed; the poller writes it
	short   atomic.Uint32  // how many more completions the last Poll asked for than it got; the poller writes it
	armSN   atomic.Uint32  // events read; the reader of the channel writes it
	like    uint64         // header of the last completion if the next one needs no other checks, or noHeader
	last    *QP            // QP of the last completion, or nobody; the poller writes it, and like
	qps     *Table
	dbrec   unsafe.Pointer // consumer index and arm word; the poller and Arm write them
	uar     unsafe.Pointer
	num     uint32
	xrc     *QP    // represents the QPs of the XRC domain, see xrc.go, or the WQ, see wq.go; nil without
	others  *Table // qps without the WQ, with one
	pending error  // error for the entry after the completions that were delivered; nil for none

	// within Poll
	locked   *SRQ // the SRQ whose lock is held; nil for none
	received bool // receives of the QP were completed and not yet published
	taken    bool // the entry's receive was completed out of order

	aside [2]uint32 // dbrec within PollTags

	raw    bool // xrc represents the receives of a raw packet QP, see raw_unsafe.go
	sender *QP  // that QP, if its sends complete here as well
	other  *QP  // xrc or sender: the QP of the entry, when unusual returns ofOther

	sl uint32 // mask of the service level, 0 on Ethernet: the device has the type of the packet there

	vlans bool // receives of datagrams may have a VLAN tag, which has their service level

	format uint32 // of receives in blocks, see block_unsafe.go; 0 without compression
}

// nobody is a QP that no completion names.
var nobody = &QP{Num: ^uint32(0)}

// NewCQ returns the CQ that c describes. Nothing may have used it before.
func NewCQ(c *CQConfig) *CQ {
	cq := &CQ{
		buf: c.Buf, mask: c.Entries - 1, log: uint8(bits.TrailingZeros32(c.Entries)), stride: uintptr(c.Size),
		dbrec: c.DBRec, uar: c.UAR, num: c.Num, qps: c.QPs, last: nobody,
		like: noHeader, sl: 0xf,
	}
	if c.Ethernet {
		cq.sl = 0
	}
	if c.Size == 128 {
		cq.buf = unsafe.Add(c.Buf, 64)
	}
	cq.look()
	return cq
}

// Leave drops the reference that the CQ may hold to qp, which is suspended.
func (cq *CQ) Leave(qp *QP) {
	if cq.last == qp {
		cq.last, cq.like = nobody, noHeader
	}
}

// moveTo sets the consumer index to ci, on behalf of what was removed or is in another ring.
func (cq *CQ) moveTo(ci uint32) {
	cq.like = noHeader // of another lap, perhaps
	publish32(&cq.ci, ci)
	mmio.Moved(cq.dbrec, bits.ReverseBytes32(ci&numberMask))
}

// entry returns the address of the 64 bytes of entry ci that are read.
func (cq *CQ) entry(ci uint32) unsafe.Pointer {
	return unsafe.Add(cq.buf, uintptr(ci&cq.mask)*cq.stride)
}

// owner returns the owner bit of entry ci once the device has written it.
func (cq *CQ) owner(ci uint32) uint8 { return uint8(ci>>(cq.log&31)) & 1 }

// Arm requests one event for the next completion, or if solicited is true for the next solicited or failed one.
func (cq *CQ) Arm(solicited bool) {
	rec := cq.armSN.Load()&3<<28 | cq.ci.Load()&numberMask
	if solicited {
		rec |= armSolicited
	}
	mmio.ArmCQ(unsafe.Add(cq.dbrec, 4), bits.ReverseBytes32(rec),
		unsafe.Add(cq.uar, armOffset), bits.ReverseBytes64(uint64(rec)<<32|uint64(cq.num)))
}

// Event counts an event that was read from the channel. The device ignores an Arm that carries the wrong count. Event
// is safe for concurrent use.
func (cq *CQ) Event() { cq.armSN.Add(1) }

// lock takes the lock of an SRQ, or of none, for the rest of Poll, and gives up the one that it has.
//
//go:noinline
func (cq *CQ) lock(s *SRQ) {
	if cq.locked != nil {
		cq.locked.mu.Unlock()
	}
	if cq.locked = s; s != nil {
		s.mu.Lock()
	}
}
