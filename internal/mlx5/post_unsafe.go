package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
	"github.com/pureverbs/pureverbs/internal/work"
)

// memo is what the opcode and the flags of a work request make of its control segment. The next one mostly has the same.
type memo struct {
	key    uint64 // opcode, flags<<32: as they lie in a SendWR
	head   uint64 // ctrlHead, with the data segment
	fields work.Fields
	fm     uint8
}

// noKey is the memo's key before any other: no opcode.
const noKey = 1<<64 - 1

// learn makes the memo for wr, if the queue takes its opcode in WQEs of control, remote address and data alone.
func (q *SQ) learn(wr *SendWR) bool {
	if wr.Opcode > 15 || q.opcodes>>wr.Opcode&1 == 0 || wr.Flags >= sendInline {
		return false
	}
	f, ds := work.FieldsOf(wr.Opcode), uint32(2)
	if f&work.Remote != 0 {
		ds++
	}
	q.memo = memo{
		key: opcodeFlags(wr), fields: f, fm: ctrlFlags[wr.Flags&7] | q.sig,
		head: ctrlHead(sendOps[wr.Opcode&15].device, q.qpn, ds),
	}
	return true
}

// opcodeFlags is the opcode, and the flags above it.
func opcodeFlags(wr *SendWR) uint64 { return *(*uint64)(unsafe.Pointer(&wr.Opcode)) }

// Post builds the leading work requests of wrs that are common, and returns how many: those of one SGE, or with inline data that
// ends in the WQE's first block. If those are all, it rings the device; else the caller goes on with Add, and rings.
func (q *SQ) Post(wrs []SendWR) int { return q.build(wrs, true) }

// Build is Post without the doorbell.
func (q *SQ) Build(wrs []SendWR) int { return q.build(wrs, false) }

//go:norace
func (q *SQ) build(wrs []SendWR, ring bool) int {
	done, cur, head := q.done.Load(), q.cur, q.head
	n := len(wrs)
	if room := min(q.maxWR-(head-uint32(done)), q.mask+1-(cur-uint32(done>>32))); uint(n) > uint(room) {
		n = int(room)
	}
	if n == 0 || q.fence != 0 {
		return 0
	}
	bell, i := uint64(0), 0
	mark := uint64(cur)<<32 | uint64(head)
	for ; i < n; i++ {
		wr := &wrs[i]
		if opcodeFlags(wr) != q.memo.key && !q.learn(wr) {
			break
		}
		if wr.AH != nil {
			break
		}
		at := uintptr(cur & q.mask)
		p := unsafe.Add(q.buf, at<<blockShift)
		seg, ctrl := unsafe.Add(p, segSize), q.memo.head
		if q.memo.fields&work.Remote != 0 {
			if wr.Remote.Outside != 0 {
				break
			}
			putRemote(seg, wr.Remote.Addr, wr.Remote.RKey)
			seg = unsafe.Add(seg, segSize)
		}
		if wr.Inline == nil {
			if len(wr.SGEs) != 1 || !plain(&wr.SGEs[0]) {
				break
			}
			s := &wr.SGEs[0]
			putData(seg, s.Length, s.LKey, s.Addr)
		} else {
			k := uintptr(len(wr.Inline))
			if len(wr.SGEs) != 0 || k-1 >= uintptr(q.maxInline) || q.memo.fields&work.Inline == 0 ||
				uintptr(seg)-uintptr(p)+4+k > blockSize {
				break
			}
			putInline(seg, uint32(k))
			copyShort(unsafe.Add(seg, 4), unsafe.Pointer(unsafe.SliceData(wr.Inline)), k)
			ctrl += uint64(k+3) / segSize
		}
		imm := uint32(0)
		if q.memo.fields&(work.Imm|work.InvalidateRKey) != 0 {
			imm = wr.ImmOrKey(q.memo.fields)
		}
		bell = putControl(p, ctrl, cur, q.memo.fm, imm)
		cur++
		mark += 1<<32 | 1
		s := (*slot)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(q.slots)), at*unsafe.Sizeof(slot{})))
		s.id, s.mark = wr.ID, mark
	}
	if i == 0 {
		return 0
	}
	q.cur, q.head, q.last = cur, uint32(mark), cur-1
	q.inlined = wrs[i-1].Inline != nil
	if ring && i == len(wrs) {
		if q.bf != 0 {
			q.Ring()
			return i
		}
		q.rung = uint32(mark)
		mmio.RingSend(q.dbrec, bits.ReverseBytes32(cur&0xffff), q.reg, bell)
	}
	return i
}
