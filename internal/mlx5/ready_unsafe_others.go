//go:build !amd64

package mlx5

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// Ordering loads takes a barrier: one for all entries that the device has written.

// ready returns the number of entries that the device has written from ci on, at most most. They may be read.
//
//go:norace
func (cq *CQ) ready(ci uint32, most int) int {
	n := 0
	for ; n < most; n++ {
		opOwn := *(*uint8)(unsafe.Add(cq.entry(ci+uint32(n)), offOpOwn))
		if opOwn>>4 == cqeInvalid || !cq.ours(uint64(opOwn), ci+uint32(n)) {
			break
		}
	}
	mmio.Loaded()
	return n
}

// tail returns the last 8 bytes of an entry.
//
//go:norace
func (cq *CQ) tail(p unsafe.Pointer) uint64 { return get64(p, offTail) }
