package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
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
	if q.pending > 0 {
		q.Ring()
	}
	return n
}

// briefs builds those of the n briefs at b that have the opcode and flags of the first. If it builds all and nothing
// else is pending, it rings the doorbell, which takes less than in Ring.
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
	cur, head, fields, key := q.cur, q.head, q.fields, q.template.key
	doorbell := uint64(0)
	for opcodeFlags(&b.Opcode) == key {
		s := &b.SGE[0]
		if !plain(s) {
			break
		}
		at := uintptr(cur & q.mask)
		p := unsafe.Add(q.buf, at<<blockShift)
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
		doorbell = putControl(p, q.template.head|uint64(cur&0xffff)<<40, tail)
		head++
		cur++
		slot := (*slot)(unsafe.Add(unsafe.Pointer(q.slots), at*unsafe.Sizeof(slot{})))
		slot.id, slot.mark = b.ID, uint64(cur)<<32|uint64(head)
		if left--; left == 0 {
			break
		}
		b = (*work.Brief)(unsafe.Add(unsafe.Pointer(b), unsafe.Sizeof(*b)))
	}
	built := int(head - q.head)
	if built == n && q.pending == 0 && q.bf == 0 {
		q.cur, q.head = cur, head
		mmio.RingSend(q.dbrec, bits.ReverseBytes32(cur&0xffff), q.reg, doorbell)
		return built
	}
	q.built(cur, head, false)
	return built
}
