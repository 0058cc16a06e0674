package mlx5

import (
	"math/bits"
	"unsafe"
)

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
