package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// Loads are seen in program order: each entry is looked at when its turn comes.

// ready returns how many entries from ci on may be there, at most most; those that are may be read.
func (cq *CQ) ready(_ uint32, most int) int { return most }

// tail loads the last 8 bytes of an entry.
func (cq *CQ) tail(p unsafe.Pointer) uint64 {
	return bits.ReverseBytes64(mmio.LoadCQE(unsafe.Add(p, offTail)))
}
