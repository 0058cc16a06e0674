package mlx5

import (
	"github.com/pureverbs/pureverbs/internal/work"
)

// Shorthands for the tests of this package.

const (
	opWrite = work.WQEWrite
	opSend  = work.WQESend
	opRead  = work.WQERead
	wcSend  = 0
	wcWrite = 1
	wcRead  = 2
)

// RDMA builds a write or read of one SGE, in the same way as ibv.
func (q *SQ) RDMA(id uint64, op, flags, imm uint32, r *RemoteAddr, s *SGE) bool {
	return q.one(SendWR{ID: id, Opcode: op, Flags: flags, Imm: imm, Remote: *r}, s)
}

// Send builds a send of one SGE, in the same way as ibv.
func (q *SQ) Send(id uint64, op, flags, imm uint32, s *SGE) bool {
	return q.one(SendWR{ID: id, Opcode: op, Flags: flags, Imm: imm, InvalidateRKey: imm}, s)
}

func (q *SQ) one(wr SendWR, s *SGE) bool {
	sges := [1]SGE{*s}
	wr.SGEs = sges[:]
	wrs := [1]SendWR{wr}
	f := work.FieldsOf(wr.Opcode)
	if (f&(work.Imm|work.InvalidateRKey) != 0 || wr.Imm == 0) && q.BuildOf(wrs[:], 1<<wr.Opcode, 0) == 1 {
		return true
	}
	segs := 1
	if f&work.Remote != 0 {
		segs++
	}
	if !q.Begin(wr.Opcode, wr.Flags, wr.Imm, segs) {
		return false
	}
	if f&work.Remote != 0 {
		q.Remote(wr.Remote.Addr, wr.Remote.RKey)
	}
	q.Data(s)
	q.Commit(wr.ID)
	return true
}

// BuildOf is Build on a queue that takes these opcodes and this much inline data.
func (q *SQ) BuildOf(wrs []SendWR, opcodes uint32, maxInline int) int {
	q.limit(opcodes, maxInline)
	n := 0
	for n < len(wrs) {
		k := q.Build(&wrs[n], len(wrs)-n)
		if k == 0 {
			break
		}
		n += k
	}
	return n
}

// PostOne is Post of one work request on such a queue.
func (q *SQ) PostOne(wr *SendWR, opcodes uint32, maxInline int) bool {
	q.limit(opcodes, maxInline)
	return q.bf == 0 && q.Post(wr, 1)
}

// PostBriefsOf is PostBriefs on such a queue.
func (q *SQ) PostBriefsOf(list []work.Brief, opcodes uint32) int {
	q.limit(opcodes, int(q.maxInline))
	return q.PostBriefs(list)
}

func (q *SQ) limit(opcodes uint32, maxInline int) {
	if q.opcodes != opcodes {
		q.opcodes, q.template.key = opcodes, noKey
	}
	q.maxInline = uint32(maxInline)
}

// Outstanding returns the number of work requests that are built and not known to be completed.
func (q *SQ) Outstanding() uint32 { return q.head - uint32(q.done.Load()) }

// Since returns the number of work requests built since m.
func (q *SQ) Since(m Mark) int { return int(q.head - m.head) }
