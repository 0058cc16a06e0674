package mlx5

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// SQConfig is where a send queue lies and what it takes.
type SQConfig struct {
	Buf       unsafe.Pointer // the ring
	Blocks    uint32         // 64-byte blocks in it, a power of two
	DBRec     unsafe.Pointer // the QP's doorbell record: receive word, send word
	Reg       unsafe.Pointer // doorbell register
	BlueFlame uint32         // bytes of the register that take a WQE, 0 for doorbells of 8 bytes only
	InlineBF  bool           // BlueFlame only for inline WQEs
	Half      *uintptr       // with BlueFlame: the half of the register that is next, which all its queues share
	MaxWR     uint32         // work requests outstanding
	SignalAll bool
	MaxInline int
	Opcodes   uint32 // 1<<opcode of those that Post takes, whose WQEs are control, remote address and data
}

// slot is what is remembered of a WQE, under its first block.
type slot struct {
	id   uint64
	mark uint64 // first block after it, <<32 | work requests posted, with this one
}

// SQ is a send queue. WQEs are built in place, Ring makes the device look at them.
type SQ struct {
	// What the poller needs, and nothing that the poster writes: with what is before it in QP, one cache line, all that
	// a completion touches of a QP.
	slots  []slot
	mask   uint32
	maxWR  uint32
	done   atomic.Uint64 // published by the poller: end<<32 | seq of the last completed WQE
	polled uint64        // the poller's own

	// What the poster needs for most work requests, little more than one line.
	buf   unsafe.Pointer
	cur   uint32 // next block; never masked, the device sees its low 16 bits
	head  uint32 // work requests built
	spare uint32 // work requests of one block that have room, at least
	rung  uint32 // head at the last Ring
	memo  memo
	fence uint8 // fm_ce_se bits that the next WQE needs
	dbrec unsafe.Pointer
	reg   unsafe.Pointer
	bf    uintptr

	maxInline uint32
	opcodes   uint32
	qpn       uint64 // shifted to its place in the control segment
	sig       uint8
	inlined   bool // the last WQE holds inline data
	inlineBF  bool
	last      uint32   // first block of the last WQE, while it is not rung
	half      *uintptr // offset of the half of the register that the next doorbell goes to
	end       unsafe.Pointer
	wqe       wqe
}

// wqe is a WQE under construction.
type wqe struct {
	seg    unsafe.Pointer // where the next segment goes
	ds     uint32
	imm    uint32
	op     uint8
	fm     uint8
	inline bool
}

// The line is not longer than one.
var _ [0]byte = [unsafe.Offsetof(QP{}.SQ) + unsafe.Offsetof(SQ{}.polled) + 8 - 64]byte{}

func (q *SQ) init(num uint32, c *SQConfig) {
	*q = SQ{
		buf: c.Buf, end: unsafe.Add(c.Buf, uintptr(c.Blocks)<<blockShift),
		slots: make([]slot, c.Blocks), mask: c.Blocks - 1, maxWR: c.MaxWR,
		maxInline: uint32(c.MaxInline), opcodes: c.Opcodes,
		qpn: uint64(num) << 8, dbrec: unsafe.Add(c.DBRec, 4), reg: c.Reg, memo: memo{key: noKey},
		bf: uintptr(c.BlueFlame), half: c.Half, inlineBF: c.InlineBF,
	}
	if q.half == nil {
		q.half = new(uintptr)
	}
	if c.SignalAll {
		q.sig = ctrlCQUpdate
	}
}

// room says whether one more work request of so many blocks fits.
func (q *SQ) room(blocks uint32) bool {
	d := q.done.Load()
	return q.head-uint32(d) < q.maxWR && q.cur-uint32(d>>32)+blocks <= q.mask+1
}

// commit ends a WQE that began at block q.cur.
//
//go:norace
func (q *SQ) commit(id uint64, blocks uint32) {
	q.last = q.cur
	q.cur += blocks
	q.spare = 0
	q.head++
	s := &q.slots[q.last&q.mask]
	s.id, s.mark = id, uint64(q.cur)<<32|uint64(q.head)
}

// block is where block i of the ring lies.
func (q *SQ) block(i uint32) unsafe.Pointer {
	return unsafe.Add(q.buf, uintptr(i&q.mask)<<blockShift)
}

// Mark is a place to go back to.
type Mark struct {
	cur, head, last uint32
	fence           uint8
	inlined         bool
}

// Mark remembers what is built.
func (q *SQ) Mark() Mark { return Mark{q.cur, q.head, q.last, q.fence, q.inlined} }

// MarkBefore is the place before the n work requests that were built last, all by Post or Build.
func (q *SQ) MarkBefore(n int) Mark {
	return Mark{q.cur - uint32(n), q.head - uint32(n), q.last - uint32(n), q.fence, q.inlined}
}

// Rollback forgets what was built since m, none of it rung.
func (q *SQ) Rollback(m Mark) {
	for ; q.cur != m.cur; q.cur-- {
		q.forget((q.cur - 1) & q.mask)
	}
	q.spare = 0
	q.head, q.last, q.fence, q.inlined = m.head, m.last, m.fence, m.inlined
}

// forget makes a slot one that cannot complete.
//
//go:norace
func (q *SQ) forget(i uint32) { q.slots[i] = slot{mark: uint64(uint32(q.done.Load()))} }

// Signaled reports whether a work request that is posted and not completed asked for a completion. It looks at the
// newest first.
//
//go:norace
func (q *SQ) Signaled() bool {
	d := q.done.Load()
	for cur := q.cur; cur != uint32(d>>32); {
		cur--
		// Under blocks in the middle of a WQE there is what an earlier one left.
		if seq := uint32(q.slots[cur&q.mask].mark); seq-uint32(d)-1 >= q.head-uint32(d) {
			continue
		}
		if get32(q.block(cur), 8)&ctrlCQUpdate != 0 {
			return true
		}
	}
	return false
}

// Ring tells the device of everything that was built. Nothing built is no doorbell.
func (q *SQ) Ring() {
	n := q.head - q.rung
	if n == 0 {
		return
	}
	q.rung = q.head
	rec := bits.ReverseBytes32(q.cur & 0xffff)
	wqe := q.block(q.last)
	bell := *(*uint64)(wqe)
	if q.bf == 0 {
		mmio.RingSend(q.dbrec, rec, q.reg, bell)
		return
	}
	reg := unsafe.Add(q.reg, *q.half)
	*q.half ^= q.bf
	ds := uintptr(bell >> 56 & maxDS)
	if n == 1 && ds > 1 && ds*segSize <= q.bf && (q.inlined || !q.inlineBF) {
		mmio.RingSendBlueFlame(q.dbrec, rec, reg, wqe, int(ds+3)/4, q.buf, q.end)
		return
	}
	mmio.RingSend(q.dbrec, rec, reg, bell)
}

// reset forgets everything, as the device does in the state RESET.
func (q *SQ) reset() {
	q.cur, q.head, q.rung, q.last, q.spare = 0, 0, 0, 0, 0
	q.fence = 0
	q.polled = 0
	q.done.Store(0)
	for i := range q.slots {
		q.forget(uint32(i))
	}
}
