//go:build !amd64

package mlx5

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// The order of loads costs a barrier: one for all entries that are there.

// ready returns how many entries from ci on may be there, at most most; those that are may be read.
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

// tail loads the last 8 bytes of an entry.
//
//go:norace
func (cq *CQ) tail(p unsafe.Pointer) uint64 { return get64(p, offTail) }
