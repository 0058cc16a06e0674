package mlx5

import (
	"math/bits"
	"unsafe"
)

// The segments of a WQE, as they lie in memory. Each stands once, for all who write WQEs.

func put64(p unsafe.Pointer, off uintptr, v uint64) {
	*(*uint64)(unsafe.Add(p, off)) = bits.ReverseBytes64(v)
}

// putRemote writes a remote address segment. C: struct mlx5_wqe_raddr_seg.
func putRemote(p unsafe.Pointer, addr uint64, rkey uint32) {
	*(*uint64)(p) = bits.ReverseBytes64(addr)
	*(*uint64)(unsafe.Add(p, 8)) = uint64(bits.ReverseBytes32(rkey))
}

// putData writes a data segment of n bytes. C: struct mlx5_wqe_data_seg.
func putData(p unsafe.Pointer, s *SGE, n uint32) {
	*(*uint64)(p) = bits.ReverseBytes64(uint64(n)<<32 | uint64(s.LKey))
	*(*uint64)(unsafe.Add(p, 8)) = bits.ReverseBytes64(s.Addr)
}

// putEnd ends a scatter list that its WQE has more room than. C: struct mlx5_wqe_data_seg with MLX5_INVALID_LKEY.
func putEnd(p unsafe.Pointer) {
	put64(p, 0, invalidLKey)
	*(*uint64)(unsafe.Add(p, 8)) = 0
}

// putAtomic writes an atomic segment: what to add or to swap in, and what to compare with. C: struct
// mlx5_wqe_atomic_seg.
func putAtomic(p unsafe.Pointer, swapAdd, compare uint64) {
	put64(p, 0, swapAdd)
	put64(p, 8, compare)
}

// putInline writes the head of an inline segment of n bytes, which follow it. C: struct mlx5_wqe_inline_seg.
func putInline(p unsafe.Pointer, n uint32) { *(*uint32)(p) = bits.ReverseBytes32(n | inlineSeg) }

// ctrlHead begins the first half of a control segment: the block's index, in bits 40 to 55, and the number of segments,
// in the lowest, come to it. C: struct mlx5_wqe_ctrl_seg.
func ctrlHead(device uint8, qpn uint64) uint64 { return uint64(device)<<32 | qpn }

// ctrlTail is the second half, as it lies in memory.
func ctrlTail(fm uint8, imm uint32) uint64 {
	return uint64(fm)<<24 | uint64(bits.ReverseBytes32(imm))<<32
}

// putControl writes a control segment and returns its first half as it lies in memory, which is the doorbell's value.
func putControl(p unsafe.Pointer, head, tail uint64) uint64 {
	bell := bits.ReverseBytes64(head)
	*(*uint64)(p) = bell
	*(*uint64)(unsafe.Add(p, 8)) = tail
	return bell
}
