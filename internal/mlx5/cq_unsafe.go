package mlx5

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// CQConfig is where a completion queue lies.
type CQConfig struct {
	Num     uint32 // CQN
	Buf     unsafe.Pointer
	Entries uint32 // a power of two
	Size    uint32 // of an entry: 64 or 128
	DBRec   unsafe.Pointer
	UAR     unsafe.Pointer
	QPs     *Table
}

// CQ is a completion queue. Its methods are called with its lock held, but for Empty and Event.
type CQ struct {
	buf     unsafe.Pointer // of the 64 bytes that count in entry 0; the device writes entries
	ring    unsafe.Pointer // buf while an empty ring means that there is no completion, else nil; see look
	mask    uint32         // entries - 1
	log     uint8          // log2 of the entries
	stride  uintptr        // of entries: 64 or 128
	hidden  bool           // Hide was called last, not Show
	ci      atomic.Uint32  // consumer index: entries taken, free running; the poller writes it
	short   atomic.Uint32  // completions that the last Poll could have had more; the poller writes it
	armSN   atomic.Uint32  // events taken; the reader of the channel counts them
	last    *QP            // of the last completion; nobody for none
	qps     *Table
	dbrec   unsafe.Pointer // consumer index, arm word; we write them
	uar     unsafe.Pointer
	num     uint32
	pending error // of the entry behind the completions that were delivered; nil for none

	// within Poll
	locked   *SRQ // its lock is held; nil for none
	received bool // receives of the QP were taken that are not published
}

// nobody is the QP of no completion.
var nobody = &QP{Num: ^uint32(0)}

// NewCQ takes a CQ over, before anything used it.
func NewCQ(c *CQConfig) *CQ {
	cq := &CQ{
		buf: c.Buf, mask: c.Entries - 1, log: uint8(bits.TrailingZeros32(c.Entries)), stride: uintptr(c.Size),
		dbrec: c.DBRec, uar: c.UAR, num: c.Num, qps: c.QPs, last: nobody,
	}
	if c.Size == 128 {
		cq.buf = unsafe.Add(c.Buf, 64)
	}
	cq.look()
	return cq
}

// Leave makes the CQ let go of qp, which is suspended.
func (cq *CQ) Leave(qp *QP) {
	if cq.last == qp {
		cq.last = nobody
	}
}

// entry is where the 64 bytes that count of entry ci lie.
func (cq *CQ) entry(ci uint32) unsafe.Pointer {
	return unsafe.Add(cq.buf, uintptr(ci&cq.mask)*cq.stride)
}

// owner is the owner bit that entry ci has when it is ours.
func (cq *CQ) owner(ci uint32) uint8 { return uint8(ci>>(cq.log&31)) & 1 }

// Arm asks for one event at the next completion, or with solicited at the next solicited or failed one.
func (cq *CQ) Arm(solicited bool) {
	rec := cq.armSN.Load()&3<<28 | cq.ci.Load()&numberMask
	if solicited {
		rec |= armSolicited
	}
	mmio.ArmCQ(unsafe.Add(cq.dbrec, 4), bits.ReverseBytes32(rec),
		unsafe.Add(cq.uar, armOffset), bits.ReverseBytes64(uint64(rec)<<32|uint64(cq.num)))
}

// Event counts an event that was taken from the channel: the device takes the next arming only with the right count. It
// may be called at any time.
func (cq *CQ) Event() { cq.armSN.Add(1) }
