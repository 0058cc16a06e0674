package mlx5

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
	"github.com/pureverbs/pureverbs/internal/work"
)

// SQConfig describes a send queue that libmlx5 has created.
type SQConfig struct {
	Buf       unsafe.Pointer // the ring
	Blocks    uint32         // 64-byte blocks in it, a power of two
	DBRec     unsafe.Pointer // the QP's doorbell record: receive word, send word
	Reg       unsafe.Pointer // doorbell register
	BlueFlame uint32         // bytes of each half of the register that take a WQE; 0 for 8-byte doorbells only
	InlineBF  bool           // use BlueFlame for inline WQEs only
	Half      *uintptr       // with BlueFlame: offset of the next half, shared by all queues on the register
	MaxWR     uint32         // maximum of outstanding work requests
	SignalAll bool
	Form      Form
	FrameHead uint8 // FormFrame: bytes of a frame that the device wants in the WQE, 0 or MaxFrameHead
	MaxInline int
	Opcodes   uint32 // set of 1<<opcode that Post covers: WQEs of control, remote address and data segments
}

// slot is the record of a WQE, kept under the index of its first block. The poster writes it, the poller reads it.
type slot struct {
	id   uint64
	mark uint64 // index of the block after the WQE, <<32 | work requests posted up to and including it
}

// SQ is a send queue. WQEs are built in place; Ring announces them to the device.
type SQ struct {
	// The poller's fields, and some that are never written. With the fields before them in QP they fill one cache line,
	// the only one of a QP that the completion of a send touches.
	slots     *slot // of mask+1
	buf       unsafe.Pointer
	mask      uint32
	maxWR     uint32
	done      atomic.Uint64 // the mark of the last completed WQE; the poller publishes it
	polled    uint64        // the same before it is published; only the poller uses it
	maxInline uint32
	opcodes   uint32

	// The poster's fields for most work requests, which fill the next cache line. The poster writes them.
	cur      uint32 // index of the next block, never masked; the device sees its low 16 bits
	head     uint32 // work requests built
	until    uint32 // there is room for work requests of one block up to here, at least
	pending  uint32 // work requests built since the last doorbell
	template template
	fields   work.Fields // of the template's opcode
	bf       uint16      // bytes of each half of the register that take a WQE
	fence    uint8       // fm_ce_se bits for the next WQE
	inlined  bool        // whether the last WQE holds inline data
	dbrec    unsafe.Pointer
	reg      unsafe.Pointer

	qpn       uint64 // at its position in the control segment
	sig       uint8
	inlineBF  bool
	form      Form
	frameHead uint8
	last      uint32   // first block of the last WQE; valid until Ring
	half      *uintptr // offset in the register for the next doorbell
	end       unsafe.Pointer
	wqe       wqe
}

// wqe is a WQE under construction.
type wqe struct {
	seg    unsafe.Pointer // where the next segment goes
	ds     uint32
	imm    uint32
	op     uint8
	mod    uint8 // the opcode's modifier
	fm     uint8
	inline bool
	stream uint16 // DCI
}

// The cache lines of a QP, which the allocator aligns because there is a size class for them.
var (
	_ [0]byte = [unsafe.Offsetof(QP{}.SQ) + unsafe.Offsetof(SQ{}.cur) - 64]byte{}
	_ [0]byte = [unsafe.Offsetof(QP{}.SQ) + unsafe.Offsetof(SQ{}.qpn) - 128]byte{}
	_ [0]byte = [unsafe.Offsetof(QP{}.RQ) - 192]byte{}
	_ [0]byte = [unsafe.Offsetof(QP{}.RQ) + unsafe.Offsetof(RQ{}.done) - 256]byte{}
	_ [0]byte = [unsafe.Sizeof(QP{}) - 320]byte{}
)

func (q *SQ) init(num uint32, c *SQConfig) {
	*q = SQ{
		buf: c.Buf, end: unsafe.Add(c.Buf, uintptr(c.Blocks)<<blockShift),
		slots: unsafe.SliceData(make([]slot, c.Blocks)), mask: c.Blocks - 1, maxWR: c.MaxWR,
		maxInline: uint32(c.MaxInline), opcodes: c.Opcodes, form: c.Form, frameHead: c.FrameHead,
		qpn: uint64(num) << 8, dbrec: unsafe.Add(c.DBRec, 4), reg: c.Reg, template: template{key: noKey},
		bf: uint16(c.BlueFlame), half: c.Half, inlineBF: c.InlineBF,
	}
	if q.half == nil {
		q.half = new(uintptr)
	}
	if c.SignalAll {
		q.sig = ctrlCQUpdate
	}
}

// room reports whether there is room for one more work request of this many blocks.
func (q *SQ) room(blocks uint32) bool {
	d := q.done.Load()
	return q.head-uint32(d) < q.maxWR && q.cur-uint32(d>>32)+blocks <= q.mask+1
}

// Rung returns how many work requests had been built when the device was told of them last.
func (q *SQ) Rung() uint32 { return q.head - q.pending }

// roomFor reports whether there is room for n more work requests, of this many blocks together.
func (q *SQ) roomFor(blocks, n uint32) bool {
	d := q.done.Load()
	return q.head-uint32(d)+n <= q.maxWR && q.cur-uint32(d>>32)+blocks <= q.mask+1
}

// commit adds the WQE at block q.cur to the queue.
//
//go:norace
func (q *SQ) commit(id uint64, blocks uint32) {
	q.last = q.cur
	q.cur += blocks
	q.until = q.cur
	q.head++
	q.pending++
	s := q.slot(q.last)
	s.id, s.mark = id, uint64(q.cur)<<32|uint64(q.head)
}

// block returns the address of block i.
func (q *SQ) block(i uint32) unsafe.Pointer {
	return unsafe.Add(q.buf, uintptr(i&q.mask)<<blockShift)
}

// Mark is a state of the queue that Rollback can return to.
type Mark struct {
	cur, head, last uint32
	fence           uint8
	inlined         bool
}

// Mark returns the current state of the queue.
func (q *SQ) Mark() Mark { return Mark{q.cur, q.head, q.last, q.fence, q.inlined} }

// MarkBefore returns the state before the last n work requests were built. Preconditions: Post or Build built them all.
func (q *SQ) MarkBefore(n int) Mark {
	return Mark{q.cur - uint32(n), q.head - uint32(n), q.last - uint32(n), q.fence, q.inlined}
}

// Rollback discards the work requests built since m. Preconditions: Ring was not called since.
func (q *SQ) Rollback(m Mark) {
	if q.room(1) {
		q.forget(q.cur) // Build may have written to it what was then refused
	}
	for ; q.cur != m.cur; q.cur-- {
		q.forget(q.cur - 1)
	}
	q.until = q.cur
	q.pending -= q.head - m.head
	q.head, q.last, q.fence, q.inlined = m.head, m.last, m.fence, m.inlined
}

// forget clears the slot of block i so that no completion can name it.
//
//go:norace
func (q *SQ) forget(i uint32) { *q.slot(i) = slot{mark: uint64(uint32(q.done.Load()))} }

// Signaled reports whether an outstanding work request asked for a completion. It checks the newest first.
//
//go:norace
func (q *SQ) Signaled() bool {
	d := q.done.Load()
	for cur := q.cur; cur != uint32(d>>32); {
		cur--
		// A slot in the middle of a WQE holds the record of an earlier one.
		if seq := uint32(q.slot(cur).mark); seq-uint32(d)-1 >= q.head-uint32(d) {
			continue
		}
		if get32(q.block(cur), 8)&ctrlCQUpdate != 0 {
			return true
		}
	}
	return false
}

// Ring announces all work requests built since the last Ring to the device. It does nothing if there are none.
func (q *SQ) Ring() {
	n := q.pending
	if n == 0 {
		return
	}
	q.pending = 0
	rec := bits.ReverseBytes32(q.cur & 0xffff)
	wqe := q.block(q.last)
	doorbell := *(*uint64)(wqe)
	if q.bf == 0 {
		mmio.RingSend(q.dbrec, rec, q.reg, doorbell)
		return
	}
	reg := unsafe.Add(q.reg, *q.half)
	*q.half ^= uintptr(q.bf)
	ds := uintptr(doorbell >> 56 & maxDS)
	if n == 1 && ds > 1 && ds*segSize <= uintptr(q.bf) && (q.inlined || !q.inlineBF) {
		mmio.RingSendBlueFlame(q.dbrec, rec, reg, wqe, int(ds+3)/4, q.buf, q.end)
		return
	}
	mmio.RingSend(q.dbrec, rec, reg, doorbell)
}

// reset empties the queue, as the device does in the state RESET.
func (q *SQ) reset() {
	q.cur, q.head, q.pending, q.last, q.until = 0, 0, 0, 0, 0
	q.fence = 0
	q.polled = 0
	q.done.Store(0)
	for i := range q.mask + 1 {
		q.forget(i)
	}
}
