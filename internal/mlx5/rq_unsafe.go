package mlx5

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// RQConfig has the memory of a receive queue.
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
	ids    *uint64        // of wqes: those of the receives that are posted; the poster writes them
	stride uintptr
	dbrec  unsafe.Pointer // pi for the device; the poster writes it
	early  *[]bool        // the WQEs that completed before an older one; nil if none ever did. The poller writes them
	ahead  uint32         // how many these are; the poller writes it
	wqes   uint32
	mask   uint32 // wqes - 1
	pi     uint32 // producer index: receives posted, free running; the poster writes it
	segs   uint32 // that a WQE has room for
	maxSGE uint32

	// The poller writes these, in the next cache line.
	done   atomic.Uint32 // ci as it was when all that a poster may overwrite had been read
	ci     uint32        // consumer index: receives completed
	seen   uint32        // pi as it was when the poller last looked
	plain  atomic.Uint32 // segs while the poller may copy payloads to any of its memory, else 0
	faults faults
}

func (q *RQ) init(c *RQConfig) {
	*q = RQ{
		buf: c.Buf, ids: unsafe.SliceData(make([]uint64, c.WQEs)), wqes: c.WQEs, mask: c.WQEs - 1,
		stride: uintptr(c.Stride), segs: c.Stride / segSize, maxSGE: uint32(c.MaxSGE), dbrec: c.DBRec,
	}
	q.plain.Store(q.segs)
}

// Post posts receives until one has SGEs that it cannot take or the queue is full, and returns how many it took.
func (q *RQ) Post(wrs []RecvWR) int {
	n := q.Run(unsafe.SliceData(wrs), len(wrs))
	return n + q.lists(wrs[n:])
}

// Run posts the leading receives of the n at wr that have one SGE, up to the free room, and returns how many.
//
// It calls nothing, and so needs no frame, and keeps the queue's words in registers: with lists in the loop posting one
// took 5.7 ns and not 4.5, and each of 16 took 1.5 and not 1.3.
//
//go:norace
func (q *RQ) Run(wr *RecvWR, n int) int {
	left := min(n, q.room())
	if left <= 0 {
		return 0
	}
	pi := q.pi
	buf, ids, mask, stride := q.buf, unsafe.Pointer(q.ids), q.mask, q.stride
	for {
		s := unsafe.SliceData(wr.SGEs)
		if len(wr.SGEs) != 1 || !plain(s) {
			break
		}
		i := uintptr(pi & mask)
		p := unsafe.Add(buf, i*stride)
		putData(p, s, s.Length)
		if stride > segSize {
			putEnd(unsafe.Add(p, segSize))
		}
		*(*uint64)(unsafe.Add(ids, i*8)) = wr.ID
		pi++
		if left--; left == 0 {
			break
		}
		wr = (*RecvWR)(unsafe.Add(unsafe.Pointer(wr), unsafe.Sizeof(RecvWR{})))
	}
	return q.ring(pi)
}

// lists is Post for scatter lists of any length.
//
//go:norace
func (q *RQ) lists(wrs []RecvWR) int {
	wrs = wrs[:min(len(wrs), q.room())]
	pi := q.pi
	for i := range wrs {
		wr := &wrs[i]
		if !fits(wr.SGEs, int(q.maxSGE)) {
			break
		}
		putList(q.list(pi), wr.SGEs, int(q.segs))
		*q.id(pi) = wr.ID
		pi++
	}
	return q.ring(pi)
}

// room is for how many receives there is room.
func (q *RQ) room() int {
	done := q.done.Load()
	return int(q.wqes) - int(q.pi-done)
}

// ring announces the receives up to pi to the device, and returns how many are new.
//
//go:norace
func (q *RQ) ring(pi uint32) int {
	n := int(pi - q.pi)
	if n > 0 {
		q.pi = pi
		mmio.Record(q.dbrec, bits.ReverseBytes32(pi&0xffff))
	}
	return n
}

// fits reports whether a receive may have these SGEs.
func fits(sges []SGE, most int) bool {
	for i := range sges {
		if sges[i].Length > maxSGELength {
			return false
		}
	}
	return len(sges) <= most
}

// complete completes the oldest receive if it is that of WQE counter and is posted. Receives complete in order, as a
// rule. completeAny, which is not in Poll's loop, takes the others.
//
//go:norace
func (q *RQ) complete(counter uint32) bool {
	if q.ci == q.seen {
		if q.ahead != 0 {
			return false
		}
		q.seen = q.pi // as it was before the doorbell, at least
	}
	if (counter^q.ci)&q.mask != 0 || q.ci == q.seen {
		return false
	}
	q.ci++
	return true
}

// completeAny completes the receive of WQE counter if it is posted: an adapter that takes packets out of order may use
// WQEs out of order, and names each in its completion. The place of one is free again when all before it are.
//
// C: handle_responder (rdma-core v55.0, providers/mlx5/cq.c:286).
//
//go:norace
func (q *RQ) completeAny(counter uint32) bool {
	i := counter & q.mask
	behind := (i - q.ci) & q.mask // so many older ones
	if behind >= q.pi-q.ci || q.isEarly(i) {
		return false
	}
	if behind == 0 {
		q.ci++
		for ; q.isEarly(q.ci); q.ahead-- {
			(*q.early)[q.ci&q.mask] = false
			q.ci++
		}
	} else {
		if q.early == nil {
			early := make([]bool, q.wqes)
			q.early = &early
		}
		(*q.early)[i] = true
		q.ahead++
	}
	q.seen = q.ci // complete looks at ahead
	return true
}

// isEarly reports whether WQE i completed before an older one that has not.
func (q *RQ) isEarly(i uint32) bool { return q.ahead != 0 && (*q.early)[i&q.mask] }

// number returns how many receives were posted up to that of WQE counter.
func (q *RQ) number(counter uint32) uint32 { return q.ci + (counter-q.ci)&q.mask + 1 }

// id is where the id of the receive of WQE i is.
func (q *RQ) id(i uint32) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(q.ids), uintptr(i&q.mask)*8))
}

// list returns where the scatter list of WQE i begins.
func (q *RQ) list(i uint32) unsafe.Pointer {
	return unsafe.Add(q.buf, uintptr(i&q.mask)*q.stride)
}

// putList writes a scatter list and, where room is left, its end. SGEs of no bytes are left out: to the device a length
// of 0 is 2 GiB (Linux, drivers/infiniband/hw/mlx5/odp.c, pagefault_data_segments).
func putList(p unsafe.Pointer, sges []SGE, segs int) {
	n := 0
	for i := range sges {
		s := &sges[i]
		if s.Length == 0 {
			continue
		}
		putData(p, s, s.Length)
		p = unsafe.Add(p, segSize)
		n++
	}
	if n < segs {
		putEnd(p)
	}
}

func (q *RQ) reset() {
	q.pi, q.ci, q.seen, q.faults = 0, 0, 0, faults{}
	q.early, q.ahead = nil, 0
	q.done.Store(0)
}
