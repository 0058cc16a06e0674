package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// Size returns the bytes of an entry.
func (cq *CQ) Size() uint32 { return uint32(cq.stride) }

// Entries returns how many entries the ring has.
func (cq *CQ) Entries() uint32 { return cq.mask + 1 }

// InitRing makes the memory at buf a ring without a written entry.
func InitRing(buf unsafe.Pointer, entries, size uint32) {
	for i := range uintptr(entries) {
		*(*uint8)(unsafe.Add(buf, (i+1)*uintptr(size)-1)) = cqeInvalid << 4
	}
}

// Unpolled counts the entries that the device has written and that were not polled, without that of a resize.
func (cq *CQ) Unpolled() uint32 {
	first := cq.ci.Load()
	for i := first; ; i++ {
		op := uint8(bits.ReverseBytes64(mmio.LoadCQE(unsafe.Add(cq.entry(i), offTail))))
		if i-first > cq.mask || op>>4 == cqeInvalid || op>>4 == cqeResize || op&1 != cq.owner(i) {
			return i - first
		}
	}
}

// Move goes on in the ring at buf, of entries entries that InitRing has made, after the device did so: the completion
// that ends the old ring is there. Entries that were not polled move along, each by one place, because that completion
// also has a place. Move returns false if the device has not ended the old ring, or left more in it than the new one
// holds. The CQ is hidden, and no Empty is running.
//
// C: mlx5_cq_resize_copy_cqes (rdma-core v44.0, providers/mlx5/cq.c:1864).
func (cq *CQ) Move(buf unsafe.Pointer, entries uint32) bool {
	type ring struct {
		buf  unsafe.Pointer
		mask uint32
		log  uint8
	}
	old := ring{cq.buf, cq.mask, cq.log}
	to := ring{unsafe.Add(buf, cq.stride-64), entries - 1, uint8(bits.TrailingZeros32(entries))}
	become := func(r ring) { cq.buf, cq.mask, cq.log = r.buf, r.mask, r.log }
	ci, n := cq.ci.Load(), cq.Unpolled()
	last := uint8(get64(cq.entry(ci+n), offTail))
	ended := last>>4 == cqeResize && last&1 == cq.owner(ci+n)
	if n > to.mask {
		ended, n = false, to.mask
	}
	for i := ci; i != ci+n; i++ {
		become(old)
		from := cq.entry(i)
		become(to)
		p := cq.entry(i + 1)
		*(*uint8)(unsafe.Add(p, offOpOwn)) = cq.owner(i + 1)
		cq.move(p, from)
	}
	become(to)
	cq.moveTo(ci + 1)
	return ended
}
