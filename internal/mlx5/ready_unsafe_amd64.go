package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// Loads are seen in program order on amd64, so each entry is checked when its turn comes.

// ready returns an upper bound, at most most, of the entries that the device has written from ci on. Those that it has
// written may be read.
func (cq *CQ) ready(_ uint32, most int) int { return most }

// tail returns the last 8 bytes of an entry.
func (cq *CQ) tail(p unsafe.Pointer) uint64 {
	return bits.ReverseBytes64(mmio.LoadCQE(unsafe.Add(p, offTail)))
}
