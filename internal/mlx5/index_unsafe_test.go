package mlx5

import (
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// All indices have 32 bits and wrap; the device sees 16 of a queue's and 24 of a CQ's.
func TestIndicesWrap(t *testing.T) {
	for _, start := range []uint32{1<<16 - 5, 1<<24 - 1024 - 5, 1<<24 - 5, 1<<31 - 5, 1<<32 - 1024 - 5, 1<<32 - 5} {
		r := newRing()
		q, cq, _ := r.open(0x123)
		s, rq := &q.SQ, &q.RQ
		s.cur, s.head, s.until = start, start-3, start // work requests and blocks need not go alike
		s.polled = uint64(s.cur)<<32 | uint64(s.head)
		s.done.Store(s.polled)
		for i := range s.mask + 1 {
			s.forget(i)
		}
		rq.pi, rq.ci, rq.seen = start, start, start
		rq.done.Store(start)
		cq.ci.Store(start)
		for i := range uint32(testEntries) { // as the laps before left them
			lap := start / testEntries
			if i >= start%testEntries {
				lap--
			}
			*r.last(i) = byte(lap & 1)
		}
		pi := start
		sge, wcs := SGE{Addr: 1, Length: 2, LKey: 3}, make([]WC, 8)
		send := func(id uint64) bool {
			return s.BuildOf([]SendWR{{ID: id, Opcode: abi.IBV_WR_SEND, Flags: sendSignaled, SGEs: []SGE{sge}}},
				1<<abi.IBV_WR_SEND, 0) == 1
		}
		for i := range uint32(20) {
			at := start + i
			if !send(uint64(at)) {
				t.Fatalf("%#x: full", at)
			}
			s.Ring()
			if rq.Post([]RecvWR{{ID: uint64(at) + 1<<40, SGEs: []SGE{sge}}}) != 1 {
				t.Fatalf("%#x: full", at)
			}
			if send, recv := get32(r.db, 4), get32(r.db, 0); send != (at+1)&0xffff || recv != (at+1)&0xffff {
				t.Fatalf("%#x: records %#x, %#x", at, send, recv)
			}
			for _, c := range []uint64{opSend << 56, cqeRespSend << 4} {
				put64(unsafe.Add(r.cq, uintptr(pi%testEntries)*64), offTail, c|0x123<<32|uint64(at&0xffff)<<16|
					uint64(pi/testEntries&1))
				pi++
			}
			n, err := cq.Poll(wcs)
			if n != 2 || err != nil || wcs[0].ID != uint64(at) || wcs[1].ID != uint64(at)+1<<40 {
				t.Fatalf("%#x: %d completions, error %v, ids %#x, %#x", at, n, err, wcs[0].ID, wcs[1].ID)
			}
			if left := s.head - uint32(s.done.Load()); left != 0 || get32(r.cqdb, 0) != pi&0xffffff {
				t.Fatalf("%#x: %d outstanding, consumer index %#x", at, left, get32(r.cqdb, 0))
			}
			cq.Arm(false)
			if rec := get32(r.cqdb, 4); rec != pi&0xffffff {
				t.Fatalf("%#x: armed at %#x", at, rec)
			}
		}
		// A queue is full at the exact count across the wrap as well.
		n := 0
		for send(1) {
			n++
		}
		if n != testBlocks || rq.Post(make([]RecvWR, testBlocks+1)) != testBlocks {
			t.Fatalf("%#x: %d sends fit", start, n)
		}
	}
}

func (r *ring) last(i uint32) *byte { return (*byte)(unsafe.Add(r.cq, uintptr(i)*64+63)) }

// A page of the table without QPs is garbage collected.
func TestTableGivesBack(t *testing.T) {
	tab := new(Table)
	a, b := NewQP(5, true, nil, nil, nil), NewQP(6, true, nil, nil, nil)
	tab.Add(a)
	tab.Add(a)
	tab.Add(b)
	tab.Remove(a)
	if tab.pages[0].Load() == nil {
		t.Error("the page of a QP is gone")
	}
	tab.Remove(b)
	if tab.pages[0].Load() != nil {
		t.Error("the page stays")
	}
}
