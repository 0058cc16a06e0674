package mlx5

import "unsafe"

// Cancel turns each WQE of a work request with this ID that the device has not begun into one that does nothing, and
// returns how many there were. next has the low 16 bits of the index of the block that the device executes next. It
// reports whether a WQE that is posted begins there. The device reads nothing of the queue meanwhile.
//
// C: mlx5dv_qp_cancel_posted_send_wrs (rdma-core v44.0, providers/mlx5/qp.c).
//
//go:norace
func (q *SQ) Cancel(next uint16, id uint64) (n int, ok bool) {
	left := uint32(uint16(q.cur) - next)
	if left > q.cur-uint32(q.done.Load()>>32) {
		return 0, false
	}
	for i := q.cur - left; i != q.cur; {
		s := q.slot(i)
		end := uint32(s.mark >> 32)
		if end-i-1 >= q.cur-i {
			return n, false
		}
		if s.id == id && nop(q.block(i)) {
			n++
		}
		i = end
	}
	return n, true
}

// nop turns the WQE at p into one that does nothing, and keeps its opcode in place of the immediate. It reports whether
// the WQE did something.
func nop(p unsafe.Pointer) bool {
	const opcode, mod = 0xff << 32, 0xff << 56
	head, tail := get64(p, 0), get64(p, 8)
	op := head & opcode >> 32
	if op == opNop {
		return false
	}
	put64(p, 0, head&^(opcode|mod))
	put64(p, 8, tail&^(1<<32-1)|op)
	return true
}
