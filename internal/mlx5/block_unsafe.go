package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// On a CQ with compression the device may write several completions as a block. The first place has the title, an entry
// of format 3 whose length is the number n of completions. The title has the fields that they share, and n words of 8
// bytes have those in which they differ: the first eight words are in the entry behind the title, the others in each
// eighth entry of the block. The other entries are not written. A block has n places in the ring.
//
// Poll treats the title as an unusual entry, and replaces the block by its entries. Each gets the owner bit of its
// place, so that none is taken for new on the next lap.

// The words of a block in memory.
type block [8]struct {
	differs uint32 // a send: index and opcode of the WQE; a receive: by the format
	length  uint32
}

const (
	offHash     = 12
	offChecksum = 20
	offCounter  = 60
)

// Compress sets the format of the differing fields of a block's receives: one of MLX5DV_CQE_RES_FORMAT_*. 0 means that
// the device writes no blocks.
func (cq *CQ) Compress(format uint32) { cq.format = format }

// Compressed reports whether the device may write blocks.
func (cq *CQ) Compressed() bool { return cq.format != 0 }

// titles reports whether an entry that ends with tail is the title of a block.
func (cq *CQ) titles(tail uint64) bool {
	return cq.format != 0 && tail&formatBits == formatBits && uint8(tail)>>4 <= cqeRespSendInv
}

// expand replaces the block whose title is entry ci by its completions. It returns false if the title has a number of
// completions that no block has.
//
// C: mlx5e_decompress_cqe, mlx5e_cqes_update_owner (Linux 6.1, drivers/net/ethernet/mellanox/mlx5/core/en_rx.c).
//
//go:norace
func (cq *CQ) expand(ci uint32) bool {
	title := *(*[8]uint64)(cq.entry(ci))
	n := get32(unsafe.Pointer(&title), offByteCnt)
	if n < 2 || n > cq.mask+1 {
		return false
	}
	tail := bits.ReverseBytes64(title[7])
	counter, opOwn := uint16(tail>>16), uint8(tail)&^(formatBits|1)
	var words block
	for i := range n {
		if i%8 == 0 {
			words = *(*block)(cq.entry(ci + max(i, 1)))
		}
		w := &words[i%8]
		p := cq.entry(ci + i)
		*(*[8]uint64)(p) = title
		*(*uint32)(unsafe.Add(p, offByteCnt)) = w.length
		switch {
		case opOwn>>4 == cqeReq:
			*(*uint16)(unsafe.Add(p, offCounter)) = uint16(w.differs)
			*(*uint8)(unsafe.Add(p, offTail)) = uint8(w.differs >> 16)
		case cq.format == abi.MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX:
			*(*uint16)(unsafe.Add(p, offChecksum)) = uint16(w.differs)
			*(*uint16)(unsafe.Add(p, offCounter)) = uint16(w.differs >> 16)
		default: // receives follow one another
			*(*uint16)(unsafe.Add(p, offCounter)) = bits.ReverseBytes16(counter + uint16(i))
			if cq.format == abi.MLX5DV_CQE_RES_FORMAT_HASH {
				*(*uint32)(unsafe.Add(p, offHash)) = w.differs
			} else {
				*(*uint16)(unsafe.Add(p, offChecksum)) = uint16(w.differs)
			}
		}
		*(*uint8)(unsafe.Add(p, offOpOwn)) = opOwn | cq.owner(ci+i)
	}
	return true
}
