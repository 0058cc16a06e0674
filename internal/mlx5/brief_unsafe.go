package mlx5

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/work"
)

// PostBriefs builds the longest prefix of list that it covers, and returns its length. It covers what Post covers of
// work requests with SGEs, whatever their opcodes and flags. If the prefix is all of them, it rings the doorbell.
func (q *SQ) PostBriefs(list []work.Brief) int {
	n := 0
	for n < len(list) {
		k := q.briefs(&list[n], len(list)-n)
		if k == 0 {
			return n
		}
		n += k
	}
	q.Ring()
	return n
}

// briefs builds those of the n briefs at b that have the opcode and flags of the first.
//
//go:norace
func (q *SQ) briefs(b *work.Brief, n int) int {
	if opcodeFlags(&b.Opcode) != q.template.key && !q.setTemplate(b.Opcode, b.Flags) || q.fence != 0 {
		return 0
	}
	room := q.oneBlocks()
	q.until = q.cur + room
	left := min(n, int(room))
	if left == 0 {
		return 0
	}
	cur, head, fields := q.cur, q.head, q.fields
	for opcodeFlags(&b.Opcode) == q.template.key {
		s := &b.SGE[0]
		if !plain(s) {
			break
		}
		p := unsafe.Add(q.buf, uintptr(cur&q.mask)<<blockShift)
		seg := unsafe.Add(p, segSize)
		if fields&work.Remote != 0 {
			if b.Remote.Outside != 0 {
				break
			}
			putRemote(seg, b.Remote.Addr, b.Remote.RKey)
			seg = unsafe.Add(seg, segSize)
		}
		putData(seg, s, s.Length)
		tail := q.template.tail
		if fields&(work.Imm|work.InvalidateRKey) != 0 {
			tail |= ctrlTail(0, b.Imm)
		}
		putControl(p, q.template.head|uint64(cur&0xffff)<<40, tail)
		head++
		q.remember(cur, b.ID, head)
		cur++
		if left--; left == 0 {
			break
		}
		b = (*work.Brief)(unsafe.Add(unsafe.Pointer(b), unsafe.Sizeof(*b)))
	}
	built := int(head - q.head)
	q.built(cur, head, false)
	return built
}
