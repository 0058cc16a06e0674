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
}

// slot is what is remembered of a WQE, under its first block.
type slot struct {
	id   uint64
	mark uint64 // first block after it, <<32 | work requests posted, with this one
}

// SQ is a send queue. WQEs are built in place, Ring makes the device look at them.
type SQ struct {
	// What the poller needs, and nothing that the poster writes: with what is before it in QP, one cache line, all that a completion touches of a QP.
	slots  []slot
	mask   uint32
	maxWR  uint32
	done   atomic.Uint64 // published by the poller: end<<32 | seq of the last completed WQE
	polled uint64        // the poller's own

	buf, end unsafe.Pointer
	cur      uint32 // next block; never masked, the device sees its low 16 bits
	head     uint32 // work requests built
	blocks   uint32
	memo     memo
	qpn      uint64 // shifted to its place in the control segment
	sig      uint8
	fence    uint8  // fm_ce_se bits that the next WQE needs
	slow     uint8  // not 0 with BlueFlame
	inlined  bool   // the last WQE holds inline data
	inline   bool   // the one under construction does
	bell     uint64 // first 8 bytes of the last WQE, as in memory
	rung     uint32 // head at the last Ring
	last     uint32 // first block of the last WQE
	dbrec    unsafe.Pointer
	reg      unsafe.Pointer
	bf       uintptr
	half     *uintptr // offset of the half of the register that the next doorbell goes to
	inlineBF bool

	// a WQE under construction
	seg unsafe.Pointer
	ds  uint32
	fm  uint8
	imm uint32
	op  uint8
}

// The line is not longer than one.
var _ [0]byte = [unsafe.Offsetof(QP{}.SQ) + unsafe.Offsetof(SQ{}.polled) + 8 - 64]byte{}

func (q *SQ) init(num uint32, c *SQConfig) {
	*q = SQ{
		buf: c.Buf, end: unsafe.Add(c.Buf, uintptr(c.Blocks)<<blockShift),
		slots: make([]slot, c.Blocks), mask: c.Blocks - 1, blocks: c.Blocks, maxWR: c.MaxWR,
		qpn: uint64(num) << 8, dbrec: unsafe.Add(c.DBRec, 4), reg: c.Reg,
		bf: uintptr(c.BlueFlame), half: c.Half, inlineBF: c.InlineBF,
	}
	if c.BlueFlame != 0 {
		q.slow = 1
	}
	if q.half == nil {
		q.half = new(uintptr)
	}
	q.memo.key = ^uint64(0) // no opcode
	if c.SignalAll {
		q.sig = ctrlCQUpdate
	}
}

func put64(p unsafe.Pointer, off uintptr, v uint64) {
	*(*uint64)(unsafe.Add(p, off)) = bits.ReverseBytes64(v)
}

// room says whether one more work request of so many blocks fits.
func (q *SQ) room(blocks uint32) bool {
	d := q.done.Load()
	return q.head-uint32(d) < q.maxWR && q.cur-uint32(d>>32)+blocks <= q.blocks
}

// commit ends a WQE that began at block q.cur.
//
//go:norace
func (q *SQ) commit(id, bell uint64, blocks uint32) {
	q.last = q.cur
	q.cur += blocks
	q.head++
	s := &q.slots[q.last&q.mask]
	s.id, s.mark = id, uint64(q.cur)<<32|uint64(q.head)
	q.bell = bell
}

// Begin starts a WQE of at most segs 16-byte segments after the control segment; Commit ends it, and until then it is nothing. It answers false when the
// queue is full; for more than 62 segments it always is.
func (q *SQ) Begin(op, flags, imm uint32, segs int) bool {
	if segs >= maxDS || !q.room((uint32(segs)+4)/4) {
		return false
	}
	q.seg = unsafe.Add(q.buf, uintptr(q.cur&q.mask)<<blockShift+segSize)
	q.ds, q.op, q.imm, q.inline = 1, sendOps[op&15], imm, false
	q.fm = ctrlFlags[flags&7] | q.sig
	if flags&sendFence == 0 {
		q.fm |= q.fence
	}
	return true
}

// next gives the place of the next segment. WQEs go on at the start of the ring.
func (q *SQ) next() unsafe.Pointer {
	p := q.seg
	if p == q.end {
		p = q.buf
	}
	q.seg = unsafe.Add(p, segSize)
	q.ds++
	return p
}

// XRC adds the segment of an XRC send: the number of the SRQ at the peer that takes the message. It comes first. C: struct mlx5_wqe_xrc_seg.
func (q *SQ) XRC(srqn uint32) {
	p := q.next()
	put64(p, 0, uint64(srqn)<<32)
	put64(p, 8, 0)
}

// Remote adds a remote address segment.
func (q *SQ) Remote(addr uint64, rkey uint32) {
	p := q.next()
	put64(p, 0, addr)
	put64(p, 8, uint64(rkey)<<32)
}

// Atomic adds an atomic segment: what to add or to swap in, and what to compare with.
func (q *SQ) Atomic(swapAdd, compare uint64) {
	p := q.next()
	put64(p, 0, swapAdd)
	put64(p, 8, compare)
}

// AVSize is the size of an address vector. C: struct mlx5_wqe_av.
const AVSize = 48

// To adds a datagram segment: the address vector at av, which the AH owns, with the peer's number and key.
func (q *SQ) To(av unsafe.Pointer, qpn, qkey uint32) {
	for i := uintptr(0); i < AVSize; i += segSize {
		p := q.next()
		*(*[2]uint64)(p) = *(*[2]uint64)(unsafe.Add(av, i))
		if i == 0 {
			*(*uint32)(p) = bits.ReverseBytes32(qkey)
			*(*uint32)(unsafe.Add(p, 8)) = bits.ReverseBytes32(qpn | extendedAV)
		}
	}
}

// Data adds an SGE. One without a byte is left out, as libmlx5 does: a length of 0 means 2 GiB to the device. An atomic operation has 8 bytes.
func (q *SQ) Data(s *SGE) {
	n := s.Length
	if n == 0 {
		return
	}
	if q.op == opAtomicCS || q.op == opAtomicFA {
		n = 8
	}
	p := q.next()
	put64(p, 0, uint64(n)<<32|uint64(s.LKey))
	put64(p, 8, s.Addr)
}

// InlineSegs is the number of segments that n bytes of inline data take.
func InlineSegs(n int) int {
	if n == 0 {
		return 0
	}
	return (n + 4 + segSize - 1) / segSize
}

// Inline adds data, copied, as the last segments; len(data) must be what Begin was told.
func (q *SQ) Inline(data []byte) {
	if len(data) == 0 {
		return
	}
	q.inline = true
	p := q.next()
	*(*uint32)(p) = bits.ReverseBytes32(uint32(len(data)) | inlineSeg)
	n := copy(unsafe.Slice((*byte)(unsafe.Add(p, 4)), segSize-4), data)
	for data = data[n:]; len(data) > 0; data = data[n:] {
		p = q.next()
		n = copy(unsafe.Slice((*byte)(p), segSize), data)
	}
}

// InlineFrom adds data copied from the memory that sges name, total bytes in all.
func (q *SQ) InlineFrom(sges []SGE, total int) {
	if total == 0 {
		return
	}
	q.inline = true
	p := q.next()
	*(*uint32)(p) = bits.ReverseBytes32(uint32(total) | inlineSeg)
	room := unsafe.Slice((*byte)(unsafe.Add(p, 4)), segSize-4)
	for i := range sges {
		data := bytesAt(sges[i].Addr, sges[i].Length)
		for len(data) > 0 {
			if len(room) == 0 {
				room = unsafe.Slice((*byte)(q.next()), segSize)
			}
			n := copy(room, data)
			room, data = room[n:], data[n:]
		}
	}
}

// bytesAt is the program's memory at addr. It is registered, so that it is not the collector's to move.
func bytesAt(addr uint64, n uint32) []byte {
	a := uintptr(addr)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&a)), n)
}

// The UMR WQE of a local invalidate: control fields that check the window's QPN, and set it free. C: MLX5_WQE_UMR_CTRL_*.
const (
	umrFlags    = 1<<7 | 1<<4 | 1<<3    // inline, translation offset, check QPN
	umrMaskInv  = 1<<29 | 1<<13 | 1<<14 // free, mkey, QPN
	umrFree     = 1<<62 | 0xffffff00    // mkey context: free, bound to no QP
	localInvSeg = (48 + 64) / segSize   // umr control, mkey context
)

// LocalInv builds the invalidation of a memory window of type 2.
func (q *SQ) LocalInv(id uint64, flags, rkey uint32) bool {
	if !q.Begin(wrLocalInv, flags, rkey, localInvSeg) {
		return false
	}
	p := q.next()
	put64(p, 0, umrFlags<<56)
	put64(p, 8, umrMaskInv)
	for i := range localInvSeg - 1 {
		p = q.next()
		*(*[2]uint64)(p) = [2]uint64{}
		if i == 2 { // the mkey context begins
			put64(p, 0, umrFree)
		}
	}
	q.Commit(id)
	q.fence = ctrlSmallFence
	return true
}

// Commit ends the WQE that Begin started.
func (q *SQ) Commit(id uint64) {
	p := unsafe.Add(q.buf, uintptr(q.cur&q.mask)<<blockShift)
	bell := bits.ReverseBytes64(uint64(q.cur&0xffff)<<40 | uint64(q.op)<<32 | q.qpn | uint64(q.ds))
	*(*uint64)(p) = bell
	put64(p, 8, uint64(q.fm)<<32|uint64(q.imm))
	q.fence = 0
	q.inlined = q.inline
	q.commit(id, bell, (q.ds+3)/4)
}

// Mark is a place to go back to.
type Mark struct {
	cur, head, last uint32
	bell            uint64
	fence           uint8
	inlined         bool
}

// Mark remembers what is built.
func (q *SQ) Mark() Mark { return Mark{q.cur, q.head, q.last, q.bell, q.fence, q.inlined} }

// Rollback forgets what was built since m, none of it rung.
func (q *SQ) Rollback(m Mark) {
	for ; q.cur != m.cur; q.cur-- {
		q.forget((q.cur - 1) & q.mask)
	}
	q.head, q.last, q.bell, q.fence, q.inlined = m.head, m.last, m.bell, m.fence, m.inlined
}

// forget makes a slot one that cannot complete.
//
//go:norace
func (q *SQ) forget(i uint32) { q.slots[i] = slot{mark: uint64(uint32(q.done.Load()))} }

// Signaled reports whether a work request that is posted and not completed asked for a completion. It looks at the newest first.
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
	if q.bf == 0 {
		mmio.RingSend(q.dbrec, rec, q.reg, q.bell)
		return
	}
	reg := unsafe.Add(q.reg, *q.half)
	*q.half ^= q.bf
	ds := uintptr(q.bell >> 56 & maxDS)
	if n == 1 && ds > 1 && ds*segSize <= q.bf && (q.inlined || !q.inlineBF) {
		mmio.RingSendBlueFlame(q.dbrec, rec, reg, unsafe.Add(q.buf, uintptr(q.last&q.mask)<<blockShift), int(ds+3)/4, q.buf, q.end)
		return
	}
	mmio.RingSend(q.dbrec, rec, reg, q.bell)
}

// reset forgets everything, as the device does in the state RESET.
func (q *SQ) reset() {
	q.cur, q.head, q.rung, q.last = 0, 0, 0, 0
	q.fence = 0
	q.polled = 0
	q.done.Store(0)
	for i := range q.slots {
		q.forget(uint32(i))
	}
}
