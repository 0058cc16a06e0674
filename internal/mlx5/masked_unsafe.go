package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/work"
)

// maskedSegs returns the number of segments that the operands of an atomic with masks take.
func maskedSegs(opcode uint32, m *work.MaskedAtomic) int {
	if opcode == work.MaskedFetchAdd {
		return int(m.Bytes()) * 2 / segSize
	}
	return int(m.Bytes()) * 4 / segSize
}

// Masked adds the operands of an atomic with masks, one behind the other, each as words in the order of memory. A field
// to add to ends with its word at the latest: no source documents where the carry of a longer one goes.
//
// C: ext_cmp_swp, ext_fetch_add (libmlx5 of MLNX_OFED 4.9, src/qp.c:728).
func (q *SQ) Masked(opcode uint32, m *work.MaskedAtomic) {
	n := m.Bytes() / 8
	q.wqe.mod = extAtomic | uint8(bits.Len32(n))
	if opcode == work.MaskedFetchAdd {
		ends := m.Mask
		for i := range ends {
			ends[i] |= 1 << 63
		}
		q.operands(n, &m.SwapAdd, &ends)
		return
	}
	q.operands(n, &m.SwapAdd, &m.Compare)
	q.operands(n, &m.Mask, &m.CompareMask)
}

// operands adds the first n words of a and then those of b.
func (q *SQ) operands(n uint32, a, b *[4]uint64) {
	if n == 1 {
		putAtomic(q.next(), a[0], b[0])
		return
	}
	for _, v := range [...]*[4]uint64{a, b} {
		for i := uint32(0); i < n; i += 2 {
			putAtomic(q.next(), v[i], v[i+1])
		}
	}
}

// swapReply swaps the words of the previous value that the atomic with masks at block counter got, if the device
// returns such values big-endian. It returns a completion status. Calling it again would undo it.
func (cq *CQ) swapReply(q *SQ, counter uint32) uint32 {
	p := q.block(counter)
	n := uint32(4) << (get32(p, 0) >> 24 & 3)
	if cq.qps.bigEndian.Load()&n == 0 {
		return 0
	}
	seg := unsafe.Add(p, uintptr(get32(p, 4)&maxDS-1)*segSize) // the only SGE is at the end
	if uintptr(seg) >= uintptr(q.end) {
		seg = unsafe.Add(q.buf, uintptr(seg)-uintptr(q.end))
	}
	if 1<<32|uint64(get32(seg, 4)) == cq.qps.null.Load() {
		return 0
	}
	words := unsafe.Slice((*uint64)(addrAt(get64(seg, 8))), n/8)
	return carefully(func() uint32 {
		for i, w := range words {
			words[i] = bits.ReverseBytes64(w)
		}
		return 0
	})
}
