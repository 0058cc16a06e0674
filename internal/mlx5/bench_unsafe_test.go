package mlx5

import (
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// ring is memory laid out as by libmlx5, with a device that completes at once.
type ring struct {
	mem            []uint64
	sq, rq, cq, db unsafe.Pointer
	cqdb, uar      unsafe.Pointer
}

const (
	testBlocks  = 1024
	testEntries = 1024
)

func newRing() *ring {
	r := &ring{mem: make([]uint64, (testBlocks*64+testBlocks*16+testEntries*64+8192)/8+8)}
	p := unsafe.Pointer(&r.mem[0])
	p = unsafe.Add(p, -uintptr(p)&63)
	r.sq = p
	r.rq = unsafe.Add(r.sq, testBlocks*64)
	r.cq = unsafe.Add(r.rq, testBlocks*16)
	r.db = unsafe.Add(r.cq, testEntries*64)
	r.cqdb = unsafe.Add(r.db, 64)
	r.uar = unsafe.Add(r.db, 4096)
	for i := range testEntries {
		*(*uint8)(unsafe.Add(r.cq, i*64+63)) = 0xf0
	}
	return r
}

func (r *ring) open(num uint32) (*QP, *CQ, *Table) {
	t := new(Table)
	q := NewQP(num, true, &SQConfig{Buf: r.sq, Blocks: testBlocks, DBRec: r.db, Reg: unsafe.Add(r.uar, 0x800),
		MaxWR: testBlocks},
		&RQConfig{Buf: r.rq, WQEs: testBlocks, Stride: 16, DBRec: r.db, MaxSGE: 1}, nil)
	t.Add(q)
	cq := NewCQ(&CQConfig{Num: 5, Buf: r.cq, Entries: testEntries, Size: 64, DBRec: r.cqdb, UAR: r.uar, QPs: t})
	return q, cq, t
}

// complete writes n completions of single-block sends from producer index pi on.
func (r *ring) complete(pi, n, num uint32, op uint8) {
	for range n {
		p := unsafe.Add(r.cq, uintptr(pi%testEntries)*64)
		put64(p, offTail, uint64(op)<<56|uint64(num)<<32|uint64(pi&0xffff)<<16|uint64(pi/testEntries&1))
		pi++
	}
}

func benchPoll(b *testing.B, n int) {
	r := newRing()
	q, cq, _ := r.open(0x123)
	q.SQ.maxWR = 1 << 31
	for i := range q.SQ.mask + 1 {
		*q.SQ.slot(i) = slot{id: uint64(i), mark: uint64(i+1)<<32 | uint64(i+1)}
	}
	wcs := make([]WC, n)
	var pi uint32
	left := 0
	for b.Loop() {
		if left < n {
			b.StopTimer()
			q.SQ.polled = 0
			cq.ci.Store(0)
			r.complete(0, testEntries, 0x123, opWrite)
			left, pi = testEntries, 0
			b.StartTimer()
		}
		got, err := cq.Poll(wcs)
		if got != n || err != nil {
			b.Fatal(got, err, pi)
		}
		left -= n
		pi += uint32(n)
	}
}

func BenchmarkPoll1(b *testing.B)  { benchPoll(b, 1) }
func BenchmarkPoll16(b *testing.B) { benchPoll(b, 16) }

func BenchmarkPollEmpty(b *testing.B) {
	r := newRing()
	_, cq, _ := r.open(0x123)
	wcs := make([]WC, 16)
	for b.Loop() {
		cq.Poll(wcs)
	}
}

func benchBuild(b *testing.B, wr SendWR, n int) {
	r := newRing()
	q, _, _ := r.open(0x123)
	wrs := make([]SendWR, n)
	for i := range wrs {
		wrs[i] = wr
	}
	for b.Loop() {
		if q.SQ.BuildOf(wrs, 1<<abi.IBV_WR_RDMA_WRITE|1<<abi.IBV_WR_SEND, 64) != n {
			b.Fatal("full")
		}
		q.SQ.Ring()
		q.SQ.done.Store(uint64(q.SQ.cur)<<32 | uint64(q.SQ.head))
	}
}

var (
	aWrite = SendWR{Opcode: abi.IBV_WR_RDMA_WRITE, Flags: sendSignaled, SGEs: []SGE{{Addr: 1, Length: 64, LKey: 3}},
		Remote: RemoteAddr{Addr: 4, RKey: 5}}
	aInline = SendWR{Opcode: abi.IBV_WR_SEND, Flags: sendSignaled, Inline: make([]byte, 32)}
)

func BenchmarkBuildWrite1(b *testing.B)   { benchBuild(b, aWrite, 1) }
func BenchmarkBuildWrite16(b *testing.B)  { benchBuild(b, aWrite, 16) }
func BenchmarkBuildInline1(b *testing.B)  { benchBuild(b, aInline, 1) }
func BenchmarkBuildInline16(b *testing.B) { benchBuild(b, aInline, 16) }
