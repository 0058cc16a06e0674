package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// Purge removes the completions of a QP that is being destroyed or reset. The device must not write new ones meanwhile.
// Receives of an SRQ are returned to it.
//
// C: __mlx5_cq_clean (rdma-core v44.0, providers/mlx5/cq.c:1811).
func (cq *CQ) Purge(qp *QP) {
	cq.purge(func(tail uint64) bool {
		if uint32(tail>>32)&numberMask != qp.Num {
			return false
		}
		if qp.SRQ != nil && fromPeer(uint8(tail)>>4) {
			qp.SRQ.take(uint32(tail>>16) & 0xffff)
		}
		return true
	})
	cq.Leave(qp)
}

// purge removes the completions that end with a tail for which gone returns true.
func (cq *CQ) purge(gone func(tail uint64) bool) {
	first := cq.ci.Load()
	end := first
	for end-first <= cq.mask {
		tail := bits.ReverseBytes64(mmio.LoadCQE(unsafe.Add(cq.entry(end), offTail)))
		op := uint8(tail)
		if op>>4 == cqeInvalid || op&1 != cq.owner(end) || cq.titles(tail) && !cq.expand(end) {
			break
		}
		end++
	}
	freed := uint32(0)
	for i := end; i != first; {
		i--
		p := cq.entry(i)
		tail := get64(p, offTail)
		if gone(tail) {
			freed++
		} else if freed != 0 {
			cq.move(cq.entry(i+freed), p)
		}
	}
	if freed != 0 {
		cq.moveTo(first + freed)
	}
}

// move copies an entry. The destination keeps its owner bit.
func (cq *CQ) move(to, from unsafe.Pointer) {
	size := cq.stride
	other := -int(size - 64) // the other half of an entry of 128 bytes comes first
	opOwn := (*uint8)(unsafe.Add(to, offOpOwn))
	owner := *opOwn & 1
	copy(unsafe.Slice((*byte)(unsafe.Add(to, other)), size), unsafe.Slice((*byte)(unsafe.Add(from, other)), size))
	*opOwn = *opOwn&^1 | owner
}
