package ibv

import (
	"math/bits"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/internal/flags"
)

// QPTypes is a set of QP types: bit n stands for QPType n.
type QPTypes uint32

// Has reports whether t is in the set.
func (s QPTypes) Has(t QPType) bool { return t < 32 && s>>t&1 != 0 }

// String joins the types with "|".
func (s QPTypes) String() string { return flags.String(s, qpTypeNames) }

// AtomicSizes is a set of operand sizes: bit n stands for 2^(n+2) bytes.
//
// C: enum ibv_pci_atomic_op_size (libibverbs/verbs.h, rdma-core v44.0, line 328).
type AtomicSizes uint16

// Has reports whether the set has operands of the given size.
func (s AtomicSizes) Has(bytes int) bool {
	return bytes >= 4 && bytes&(bytes-1) == 0 && s>>(bits.TrailingZeros(uint(bytes))-2)&1 != 0
}

// String joins the sizes with "|", as in "4|8"; no size is "0".
func (s AtomicSizes) String() string {
	var sizes []string
	for i := range 16 {
		if s>>i&1 != 0 {
			sizes = append(sizes, strconv.Itoa(4<<i))
		}
	}
	if sizes == nil {
		return "0"
	}
	return strings.Join(sizes, "|")
}
