package mlx5

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// RQConfig is where a receive queue lies.
type RQConfig struct {
	Buf    unsafe.Pointer
	WQEs   uint32 // a power of two
	Stride uint32 // bytes of a WQE
	DBRec  unsafe.Pointer
	MaxSGE int // for one work request
}

// RQ is a receive queue of one QP.
type RQ struct {
	buf    unsafe.Pointer
	ids    []uint64
	mask   uint32
	stride uintptr
	segs   int // that a WQE has room for
	maxSGE int
	head   uint32
	dbrec  unsafe.Pointer

	_ [64]byte // the poller writes below

	done   atomic.Uint32 // published by the poller: work requests completed
	polled uint32        // the poller's own
	known  uint32        // what head was when the poller last looked
}

func (q *RQ) init(c *RQConfig) {
	*q = RQ{
		buf: c.Buf, ids: make([]uint64, c.WQEs), mask: c.WQEs - 1, stride: uintptr(c.Stride),
		segs: int(c.Stride) / segSize, maxSGE: c.MaxSGE, dbrec: c.DBRec,
	}
}

// takes reports whether a receive may have these SGEs.
func takes(sges []SGE, most int) bool {
	for i := range sges {
		if sges[i].Length > maxSGELength {
			return false
		}
	}
	return len(sges) <= most
}

// Post posts receives until one has SGEs that it cannot take or the queue is full, and returns how many it took.
//
//go:norace
func (q *RQ) Post(wrs []RecvWR) int {
	head := q.head
	if room := uint32(len(q.ids)) - (head - q.done.Load()); uint(len(wrs)) > uint(room) {
		wrs = wrs[:room]
	}
	ids := unsafe.Pointer(unsafe.SliceData(q.ids))
	for n := range wrs {
		wr := &wrs[n]
		i := uintptr(head & q.mask)
		p := unsafe.Add(q.buf, i*q.stride)
		if len(wr.SGEs) == 1 && plain(&wr.SGEs[0]) {
			s := &wr.SGEs[0]
			put64(p, 0, uint64(s.Length)<<32|uint64(s.LKey))
			put64(p, 8, s.Addr)
			if q.segs > 1 {
				put64(p, 16, invalidLKey)
				*(*uint64)(unsafe.Add(p, 24)) = 0
			}
		} else if takes(wr.SGEs, q.maxSGE) {
			putList(p, wr.SGEs, q.segs, true)
		} else {
			break
		}
		*(*uint64)(unsafe.Add(ids, i*8)) = wr.ID
		head++
	}
	n := int(head - q.head)
	if n > 0 {
		q.head = head
		mmio.Record(q.dbrec, bits.ReverseBytes32(head&0xffff))
	}
	return n
}

// take completes the next receive, which is that of WQE counter, or answers false when that is not so or none is posted.
//
//go:norace
func (q *RQ) take(counter uint32) (i uint32, ok bool) {
	if q.polled == q.known {
		q.known = q.head // as it was before the doorbell, at least
		if q.polled == q.known {
			return 0, false
		}
	}
	i = counter & q.mask
	if i != q.polled&q.mask { // receives complete in order
		return 0, false
	}
	q.polled++
	return i, true
}

// putList writes a scatter list and, where room is left, its end.
func putList(p unsafe.Pointer, sges []SGE, segs int, skipEmpty bool) {
	n := 0
	for i := range sges {
		s := &sges[i]
		if s.Length == 0 && skipEmpty {
			continue
		}
		put64(p, 0, uint64(s.Length)<<32|uint64(s.LKey))
		put64(p, 8, s.Addr)
		p = unsafe.Add(p, segSize)
		n++
	}
	if n < segs {
		put64(p, 0, invalidLKey)
		*(*uint64)(unsafe.Add(p, 8)) = 0
	}
}

func (q *RQ) reset() {
	q.head, q.polled, q.known = 0, 0, 0
	q.done.Store(0)
}
