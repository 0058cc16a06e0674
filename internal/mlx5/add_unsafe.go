package mlx5

import (
	"math/bits"
	"unsafe"
)

// Begin starts a WQE of at most segs 16-byte segments after the control segment, and reports whether there is room for
// it. There never is for more than 62 segments. The WQE is not part of the queue until Commit ends it.
func (q *SQ) Begin(op, flags, imm uint32, segs int) bool {
	if segs >= maxDS || !q.room((uint32(segs)+4)/4) {
		return false
	}
	q.wqe = wqe{
		seg: unsafe.Add(q.block(q.cur), segSize), ds: 1, imm: imm, op: sendOps[op&31].device,
		fm: ctrlFlags[flags&7] | q.sig,
	}
	if flags&sendFence == 0 {
		q.wqe.fm |= q.fence
	}
	return true
}

// next returns the address of the next segment. A WQE that reaches the end of the ring continues at its start.
func (q *SQ) next() unsafe.Pointer {
	p := q.wqe.seg
	if p == q.end {
		p = q.buf
	}
	q.wqe.seg = unsafe.Add(p, segSize)
	q.wqe.ds++
	return p
}

// XRC adds the segment that names the peer's SRQ. It comes before all others.
func (q *SQ) XRC(srqn uint32) { putXRC(q.next(), srqn) }

// Remote adds a remote address segment.
func (q *SQ) Remote(addr uint64, rkey uint32) { putRemote(q.next(), addr, rkey) }

// Atomic adds an atomic segment: the operand to add or to swap in, and the operand to compare with.
func (q *SQ) Atomic(swapAdd, compare uint64) { putAtomic(q.next(), swapAdd, compare) }

// To adds a datagram segment: the address vector at av, which the AH owns, with the peer's QPN and Q_Key.
func (q *SQ) To(av unsafe.Pointer, qpn, qkey uint32) {
	*(*uint32)(q.address(av, qpn)) = bits.ReverseBytes32(qkey)
}

// ToDCT adds a datagram segment of a DCI: the address vector at av, with the number of the peer's DCT and its access
// key. stream is the DCI's stream that the WQE belongs to.
func (q *SQ) ToDCT(av unsafe.Pointer, dctn uint32, key uint64, stream uint16) {
	put64(q.address(av, dctn), 0, key)
	q.wqe.stream = stream
}

// address adds a datagram segment without its key, which belongs at the address that it returns.
func (q *SQ) address(av unsafe.Pointer, qpn uint32) (key unsafe.Pointer) {
	for i := uintptr(0); i < avSize; i += segSize {
		p := q.next()
		*(*[2]uint64)(p) = *(*[2]uint64)(unsafe.Add(av, i))
		if i == 0 {
			*(*uint32)(unsafe.Add(p, 8)) = bits.ReverseBytes32(qpn | extendedAV)
			key = p
		}
	}
	return key
}

// Data adds an SGE. An SGE of length 0 is left out, as in libmlx5, because 0 means 2 GiB to the device. The SGE of an
// atomic operation always gets length 8.
func (q *SQ) Data(s *SGE) {
	n := s.Length
	if n == 0 {
		return
	}
	if q.wqe.op == opAtomicCS || q.wqe.op == opAtomicFA {
		n = 8
	}
	putData(q.next(), s, n)
}

// InlineSegs returns the number of segments that n bytes of inline data take.
func InlineSegs(n int) int {
	if n == 0 {
		return 0
	}
	return (n + 4 + segSize - 1) / segSize
}

// Inline copies data into the last segments of the WQE. len(data) must match the number of segments given to Begin.
func (q *SQ) Inline(data []byte) {
	if room := q.inline(len(data)); room != nil {
		q.fill(room, data)
	}
}

// InlineFrom is Inline for data in the memory that sges describe, total bytes in all.
func (q *SQ) InlineFrom(sges []SGE, total int) {
	room := q.inline(total)
	if room == nil {
		return
	}
	for i := range sges {
		room = q.fill(room, bytesAt(sges[i].Addr, sges[i].Length))
	}
}

// inline begins the inline data and returns the free part of its first segment, nil if there is no data.
func (q *SQ) inline(total int) []byte {
	if total == 0 {
		return nil
	}
	q.wqe.inline = true
	p := q.next()
	putInline(p, uint32(total))
	return unsafe.Slice((*byte)(unsafe.Add(p, 4)), segSize-4)
}

// fill copies data to room and to the segments after it, and returns the free part of the last one.
func (q *SQ) fill(room, data []byte) []byte {
	for len(data) > 0 {
		if len(room) == 0 {
			room = unsafe.Slice((*byte)(q.next()), segSize)
		}
		n := copy(room, data)
		room, data = room[n:], data[n:]
	}
	return room
}

// bytesAt returns the n bytes at addr. They are registered memory, which the garbage collector does not move.
func bytesAt(addr uint64, n uint32) []byte {
	a := uintptr(addr)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&a)), n)
}

// Commit ends the WQE that Begin started.
func (q *SQ) Commit(id uint64) {
	w := &q.wqe
	putControl(q.block(q.cur), ctrlHead(w.op, q.qpn)|uint64(w.mod)<<56|uint64(w.ds)|uint64(q.cur&0xffff)<<40,
		ctrlTail(w.fm, w.imm)|ctrlStream(w.stream))
	q.fence, q.inlined = 0, w.inline
	q.commit(id, (w.ds+3)/4)
}
