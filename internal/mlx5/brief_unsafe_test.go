package mlx5

import (
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/work"
)

// Post, Build, Add and PostBriefs take turns on a queue of four blocks, with the same opcode and flags: each of them
// finds it full after four, and as empty as completions made it.
func TestRoomAcross(t *testing.T) {
	brief := work.Brief{Opcode: aWrite.Opcode, Flags: aWrite.Flags, SGE: [1]SGE{aWrite.SGEs[0]}, Remote: aWrite.Remote}
	ways := []struct {
		name string
		post func(q *SQ) bool
	}{
		{"Post", func(q *SQ) bool { return q.Post(&aWrite, 1) }},
		{"Build", func(q *SQ) bool { return q.Build(&aWrite, 1) == 1 }},
		{"Add", func(q *SQ) bool { return q.Add(&aWrite, 0, 0) }},
		{"PostBriefs", func(q *SQ) bool { return q.PostBriefs([]work.Brief{brief}) == 1 }},
	}
	r := newRing()
	for _, first := range ways {
		for _, second := range ways {
			for taken := range 5 {
				q := &NewQP(0x123, true, &SQConfig{Buf: r.sq, Blocks: 4, DBRec: r.db, Reg: unsafe.Add(r.uar, 0x800),
					MaxWR: 4, Opcodes: 1 << aWrite.Opcode}, nil, nil).SQ
				complete := func() { q.done.Store(uint64(q.cur)<<32 | uint64(q.head)) }
				for range taken {
					if !first.post(q) {
						t.Fatalf("%s refused one of %d", first.name, taken)
					}
				}
				complete()
				for i := range 5 {
					if second.post(q) != (i < 4) {
						t.Errorf("%d by %s, then number %d by %s: want 4", taken, first.name, i, second.name)
					}
				}
				for _, w := range ways {
					if w.post(q) {
						t.Errorf("%d by %s, 4 by %s: %s posts another one", taken, first.name, second.name, w.name)
					}
				}
				complete()
				for i := range 5 {
					if first.post(q) != (i < 4) {
						t.Errorf("%d by %s, 4 by %s, then number %d: want 4", taken, first.name, second.name, i)
					}
				}
			}
		}
	}
}
