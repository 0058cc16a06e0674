package mlx5

import (
	"math/bits"
	"unsafe"
)

// The segments of a WQE, in the order of memory. Each format is written here and nowhere else. The structs are in
// rdma-core v44.0, providers/mlx5/mlx5dv.h:1244-1302.

func put64(p unsafe.Pointer, off uintptr, v uint64) {
	*(*uint64)(unsafe.Add(p, off)) = bits.ReverseBytes64(v)
}

// putXRC writes the segment of an XRC_SEND QP. C: struct mlx5_wqe_xrc_seg (rdma-core v44.0, providers/mlx5/wqe.h:59).
func putXRC(p unsafe.Pointer, srqn uint32) {
	put64(p, 0, uint64(srqn)<<32)
	put64(p, 8, 0)
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

// putEnd ends a scatter list that does not fill its WQE. C: struct mlx5_wqe_data_seg with MLX5_INVALID_LKEY.
func putEnd(p unsafe.Pointer) {
	put64(p, 0, invalidLKey)
	*(*uint64)(unsafe.Add(p, 8)) = 0
}

// putAtomic writes an atomic segment: the operand to add or to swap in, and the operand to compare with. C: struct
// mlx5_wqe_atomic_seg.
func putAtomic(p unsafe.Pointer, swapAdd, compare uint64) {
	put64(p, 0, swapAdd)
	put64(p, 8, compare)
}

// putInline writes the head of an inline segment; its n bytes of data follow. C: struct mlx5_wqe_inl_data_seg.
func putInline(p unsafe.Pointer, n uint32) { *(*uint32)(p) = bits.ReverseBytes32(n | inlineSeg) }

// ctrlHead returns the first half of a control segment without the index of the block and the number of segments. The
// caller adds the index in bits 40 to 55 and the number in bits 0 to 5. C: struct mlx5_wqe_ctrl_seg.
func ctrlHead(device uint8, qpn uint64) uint64 { return uint64(device)<<32 | qpn }

// ctrlTail returns the second half, in the order of memory.
func ctrlTail(fm uint8, imm uint32) uint64 {
	return uint64(fm)<<24 | uint64(bits.ReverseBytes32(imm))<<32
}

// ctrlStream returns the part of the second half that names a DCI's stream.
func ctrlStream(stream uint16) uint64 { return uint64(bits.ReverseBytes16(stream)) << 8 }

// putControl writes a control segment. It returns the first half in the order of memory, which is the value for the
// doorbell register.
func putControl(p unsafe.Pointer, head, tail uint64) uint64 {
	doorbell := bits.ReverseBytes64(head)
	*(*uint64)(p) = doorbell
	*(*uint64)(unsafe.Add(p, 8)) = tail
	return doorbell
}
