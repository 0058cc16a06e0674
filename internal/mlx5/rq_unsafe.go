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
	buf    unsafe.Pointer // the ring: the poster writes WQEs, the poller reads their lists
	ids    []uint64       // of the receives that are posted; the poster writes them
	mask   uint32         // WQEs - 1
	stride uintptr
	segs   int // that a WQE has room for
	maxSGE int
	pi     uint32         // producer index: receives posted, free running; the poster writes it
	dbrec  unsafe.Pointer // pi for the device; the poster writes it

	_ [64]byte // the poller writes below

	done atomic.Uint32 // ci as it was when all that a poster may overwrite had been read
	ci   uint32        // consumer index: receives completed
	seen uint32        // pi as it was when the poller last looked
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
	pi := q.pi
	if room := uint32(len(q.ids)) - (pi - q.done.Load()); uint(len(wrs)) > uint(room) {
		wrs = wrs[:room]
	}
	ids := unsafe.Pointer(unsafe.SliceData(q.ids))
	for n := range wrs {
		wr := &wrs[n]
		i := uintptr(pi & q.mask)
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
		pi++
	}
	n := int(pi - q.pi)
	if n > 0 {
		q.pi = pi
		mmio.Record(q.dbrec, bits.ReverseBytes32(pi&0xffff))
	}
	return n
}

// complete completes the next receive if it is that of WQE counter and is posted: receives complete in order.
//
//go:norace
func (q *RQ) complete(counter uint32) bool {
	if q.ci == q.seen {
		q.seen = q.pi // as it was before the doorbell, at least
	}
	if (counter^q.ci)&q.mask != 0 || q.ci == q.seen {
		return false
	}
	q.ci++
	return true
}

// id is that of the receive of WQE counter.
//
//go:norace
func (q *RQ) id(counter uint32) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(q.ids)), uintptr(counter&q.mask)*8))
}

// list is where the scatter list of WQE counter lies.
func (q *RQ) list(counter uint32) unsafe.Pointer {
	return unsafe.Add(q.buf, uintptr(counter&q.mask)*q.stride)
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
	q.pi, q.ci, q.seen = 0, 0, 0
	q.done.Store(0)
}
