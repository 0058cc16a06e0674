package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// SendWR is a work request for a send queue. The caller's type has this layout.
type SendWR struct {
	ID             uint64
	Opcode         uint32
	Flags          uint32
	SGEs           []SGE
	Inline         []byte
	Remote         RemoteAddr
	Imm            uint32
	InvalidateRKey uint32
	CompareAdd     uint64
	Swap           uint64
	AH             unsafe.Pointer
	RemoteQPN      uint32
	RemoteQKey     uint32
}

// What Build has to know of an opcode: the device's, and which fields count.
const (
	planRDMA = 1 << (8 + iota)
	planImm
	planInv
)

var plans = [16]uint32{
	wrWrite: opWrite | planRDMA, wrWriteImm: opWriteImm | planRDMA | planImm, wrRead: opRead | planRDMA,
	wrSend: opSend, wrSendImm: opSendImm | planImm, wrSendInv: opSendInv | planInv,
}

// Build builds the leading work requests of wrs that most people post, and returns how many: those of one SGE, or with short inline data, whose opcode is in the
// bit set ops, which holds opcodes of writes, reads and sends only. At the first other one, or without room, it stops: the caller builds that one by Begin.
func (q *SQ) Build(wrs []SendWR, ops uint32, maxInline int) int {
	d := q.done.Load()
	if room := min(q.maxWR-(q.head-uint32(d)), q.blocks-(q.cur-uint32(d>>32))); uint(len(wrs)) > uint(room) {
		wrs = wrs[:room]
	}
	if q.fence != 0 {
		return 0
	}
	n := 0
	for n < len(wrs) {
		// Work requests posted together are mostly alike: a run has one opcode and the same flags.
		wr := &wrs[n]
		if wr.Opcode > 15 || ops>>(wr.Opcode&15)&1 == 0 || wr.Flags > 7 {
			break
		}
		plan := plans[wr.Opcode&15]
		bell := uint64(uint8(plan))<<32 | q.qpn
		ctrl := uint64(ctrlFlags[wr.Flags&7]|q.sig) << 32
		run := 0
		if wr.Inline != nil && plan != opRead|planRDMA {
			run = q.buildInline(wrs[n:], bell, ctrl, plan, maxInline)
		} else if plan == uint32(uint8(plan))|planRDMA {
			run = q.buildRDMA(wrs[n:], bell|3, ctrl)
		} else {
			run = q.buildSGE(wrs[n:], bell, ctrl, plan)
		}
		if run == 0 {
			break
		}
		n += run
		q.head += uint32(run)
		q.cur += uint32(run)
		q.last = q.cur - 1
		q.bell = *(*uint64)(q.block(q.last))
		q.inlined = wr.Inline != nil
	}
	return n
}

// memo keeps what PostOne made of an opcode and flags: the next work request mostly has the same.
type memo struct {
	key  uint64 // opcode, flags<<32: as they lie in a SendWR
	bell uint64 // opcode, QPN
	ctrl uint64
	plan uint32
}

// learn makes a memo of an opcode in ops.
func (q *SQ) learn(wr *SendWR, ops uint32) bool {
	if wr.Opcode > 15 || ops>>(wr.Opcode&15)&1 == 0 || wr.Flags > 7 {
		return false
	}
	plan := plans[wr.Opcode&15]
	q.memo = memo{wr.key(), uint64(uint8(plan))<<32 | q.qpn, uint64(ctrlFlags[wr.Flags&7]|q.sig) << 32, plan}
	return true
}

// key is opcode and flags.
func (wr *SendWR) key() uint64 { return *(*uint64)(unsafe.Pointer(&wr.Opcode)) }

// PostOne posts what Build would build, and else answers false: the same as Build and Ring for one work request, with less ado. It is not for BlueFlame.
//
//go:norace
func (q *SQ) PostOne(wr *SendWR, ops uint32, maxInline int) bool {
	if wr.key() != q.memo.key && !q.learn(wr, ops) {
		return false
	}
	d := q.done.Load()
	cur, head := q.cur, q.head
	if wr.AH != nil || q.fence|q.slow != 0 || head-uint32(d) >= q.maxWR || cur-uint32(d>>32) >= q.blocks {
		return false
	}
	at := uintptr(cur & q.mask)
	p := unsafe.Add(q.buf, at<<blockShift)
	seg, ds := unsafe.Add(p, segSize), uint64(2)
	plan := q.memo.plan
	if plan&planRDMA != 0 {
		if wr.Remote.Outside != 0 {
			return false
		}
		seg, ds = unsafe.Add(p, 2*segSize), 3
	}
	if wr.Inline == nil {
		if len(wr.SGEs) != 1 || !wr.SGEs[0].plain() {
			return false
		}
		s := &wr.SGEs[0]
		put64(seg, 0, uint64(s.Length)<<32|uint64(s.LKey))
		put64(seg, 8, s.Addr)
	} else {
		k := len(wr.Inline)
		if plan == opRead|planRDMA || len(wr.SGEs) != 0 || k == 0 || k > maxInline || k > blockSize+segSize-4-int(ds)*segSize {
			return false
		}
		*(*uint32)(seg) = bits.ReverseBytes32(uint32(k) | inlineSeg)
		copyShort(unsafe.Add(seg, 4), unsafe.Pointer(unsafe.SliceData(wr.Inline)), uintptr(k))
		ds += uint64(k+3) / segSize
	}
	if plan&planRDMA != 0 {
		put64(p, 16, wr.Remote.Addr)
		*(*uint64)(unsafe.Add(p, 24)) = uint64(bits.ReverseBytes32(wr.Remote.RKey))
	}
	bell := bits.ReverseBytes64(uint64(cur&0xffff)<<40 | q.memo.bell | ds)
	*(*uint64)(p) = bell
	ctrl := q.memo.ctrl
	if plan&(planImm|planInv) != 0 {
		ctrl |= wr.imm(plan)
	}
	put64(p, 8, ctrl)
	cur, head = cur+1, head+1
	o := (*slot)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(q.slots)), at*unsafe.Sizeof(slot{})))
	o.id, o.mark = wr.ID, uint64(cur)<<32|uint64(head)
	q.cur, q.head, q.rung = cur, head, head
	mmio.RingSend(q.dbrec, bits.ReverseBytes32(cur&0xffff), q.reg, bell)
	return true
}

// key is the rkey, and something in the upper half if the address is Outside.
func (r *RemoteAddr) key() uint64 { return *(*uint64)(unsafe.Pointer(&r.RKey)) }

// block is where block i of the ring lies.
func (q *SQ) block(i uint32) unsafe.Pointer {
	return unsafe.Add(q.buf, uintptr(i&q.mask)<<blockShift)
}

// same reports whether wr has the opcode and the flags of key, and no AH.
func (wr *SendWR) same(key uint64) bool { return wr.key() == key && wr.AH == nil }

// remember notes what was posted at block cur, the run'th of a run.
//
//go:norace
func (q *SQ) remember(cur uint32, run int, id uint64) {
	s := (*slot)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(q.slots)), uintptr(cur&q.mask)*unsafe.Sizeof(slot{})))
	s.id, s.mark = id, uint64(cur+1)<<32|uint64(q.head+uint32(run)+1)
}

// buildRDMA builds a run of writes or reads of one SGE.
func (q *SQ) buildRDMA(wrs []SendWR, bell, ctrl uint64) int {
	ctrl = bits.ReverseBytes64(ctrl)
	key := wrs[0].key()
	for i := range wrs {
		wr := &wrs[i]
		if !wr.same(key) || wr.Inline != nil || len(wr.SGEs) != 1 || !wr.SGEs[0].plain() {
			return i
		}
		s := &wr.SGEs[0]
		rkey := wr.Remote.key()
		if rkey > 1<<32-1 {
			return i
		}
		cur := q.cur + uint32(i)
		p := q.block(cur)
		put64(p, 0, uint64(cur&0xffff)<<40|bell)
		*(*uint64)(unsafe.Add(p, 8)) = ctrl
		put64(p, 16, wr.Remote.Addr)
		*(*uint64)(unsafe.Add(p, 24)) = uint64(bits.ReverseBytes32(uint32(rkey)))
		put64(p, 32, uint64(s.Length)<<32|uint64(s.LKey))
		put64(p, 40, s.Addr)
		q.remember(cur, i, wr.ID)
	}
	return len(wrs)
}

func (wr *SendWR) imm(plan uint32) uint64 {
	switch {
	case plan&planImm != 0:
		return uint64(wr.Imm)
	case plan&planInv != 0:
		return uint64(wr.InvalidateRKey)
	}
	return 0
}

// buildSGE builds a run of other work requests of one SGE.
func (q *SQ) buildSGE(wrs []SendWR, bell, ctrl uint64, plan uint32) int {
	key := wrs[0].key()
	for i := range wrs {
		wr := &wrs[i]
		if !wr.same(key) || wr.Inline != nil || len(wr.SGEs) != 1 || !wr.SGEs[0].plain() {
			return i
		}
		s := &wr.SGEs[0]
		cur := q.cur + uint32(i)
		p := q.block(cur)
		put64(p, 8, ctrl|wr.imm(plan))
		ds := uint64(2)
		seg := unsafe.Add(p, segSize)
		if plan&planRDMA != 0 {
			if wr.Remote.Outside != 0 {
				return i
			}
			put64(p, 16, wr.Remote.Addr)
			put64(p, 24, uint64(wr.Remote.RKey)<<32)
			seg, ds = unsafe.Add(seg, segSize), 3
		}
		put64(seg, 0, uint64(s.Length)<<32|uint64(s.LKey))
		put64(seg, 8, s.Addr)
		put64(p, 0, uint64(cur&0xffff)<<40|bell|ds)
		q.remember(cur, i, wr.ID)
	}
	return len(wrs)
}

// buildInline builds a run of work requests whose inline data fits in the block.
func (q *SQ) buildInline(wrs []SendWR, bell, ctrl uint64, plan uint32, maxInline int) int {
	head := segSize
	if plan&planRDMA != 0 {
		head = 2 * segSize
	}
	room := min(maxInline, blockSize-4-head)
	key := wrs[0].key()
	for i := range wrs {
		wr := &wrs[i]
		k := len(wr.Inline)
		if !wr.same(key) || len(wr.SGEs) != 0 || uint(k-1) >= uint(room) {
			return i
		}
		cur := q.cur + uint32(i)
		p := q.block(cur)
		put64(p, 8, ctrl|wr.imm(plan))
		if plan&planRDMA != 0 {
			if wr.Remote.Outside != 0 {
				return i
			}
			put64(p, 16, wr.Remote.Addr)
			put64(p, 24, uint64(wr.Remote.RKey)<<32)
		}
		seg := unsafe.Add(p, head)
		*(*uint32)(seg) = bits.ReverseBytes32(uint32(k) | inlineSeg)
		copyShort(unsafe.Add(seg, 4), unsafe.Pointer(unsafe.SliceData(wr.Inline)), uintptr(k))
		put64(p, 0, uint64(cur&0xffff)<<40|bell|uint64(head+4+k+segSize-1)/segSize)
		q.remember(cur, i, wr.ID)
	}
	return len(wrs)
}

// copyShort copies few bytes: a call of copy would cost more than the rest of a work request.
func copyShort(to, from unsafe.Pointer, n uintptr) {
	switch {
	case n >= 16:
		copyLong(to, from, n)
	case n >= 8:
		*(*uint64)(to) = *(*uint64)(from)
		*(*uint64)(unsafe.Add(to, n-8)) = *(*uint64)(unsafe.Add(from, n-8))
	default:
		for i := range n {
			*(*byte)(unsafe.Add(to, i)) = *(*byte)(unsafe.Add(from, i))
		}
	}
}

// copyLong is copyShort for 16 bytes or more.
func copyLong(to, from unsafe.Pointer, n uintptr) {
	for i := uintptr(0); i < n-16; i += 16 {
		*(*[2]uint64)(unsafe.Add(to, i)) = *(*[2]uint64)(unsafe.Add(from, i))
	}
	*(*[2]uint64)(unsafe.Add(to, n-16)) = *(*[2]uint64)(unsafe.Add(from, n-16))
}
