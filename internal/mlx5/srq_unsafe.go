package mlx5

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
	"github.com/pureverbs/pureverbs/internal/spin"
)

// SRQConfig has the memory of a shared receive queue, and how far its list is used.
type SRQConfig struct {
	Buf        unsafe.Pointer
	Stride     uint32
	MaxSGE     int    // for one work request
	Head, Tail uint32 // of the list of free WQEs
	WQEs       uint32 // in the buffer: Tail may not be its last one
	DBRec      unsafe.Pointer
}

// SRQ is a shared receive queue: a list of free WQEs, linked through the WQEs themselves; the device takes the first
// ones. Unlike the other queues it has a lock, which the caller holds in Post, because CQs of several QPs give WQEs
// back.
type SRQ struct {
	mu      *spin.Lock
	buf     unsafe.Pointer // of WQEs: we write links and lists, the device reads both
	stride  uintptr
	segs    int      // that a WQE has room for
	ids     []uint64 // of the WQEs that are posted
	used    []bool   // posted and not completed
	head    uint32   // first free WQE: the next to post; the poster moves it
	tail    uint32   // last free WQE, which stays free; the poller appends to it
	counter uint16   // receives posted, free running; the poster writes it
	maxSGE  int
	dbrec   unsafe.Pointer // counter for the device; the poster writes it

	plain   atomic.Uint32 // segs while the poller may copy payloads to any of its memory, else 0
	watched atomic.Bool   // the keys of receives are checked before they are posted
}

// NewSRQ takes an SRQ over, before anything was posted. mu guards it.
func NewSRQ(c *SRQConfig, mu *spin.Lock) *SRQ {
	s := &SRQ{
		mu: mu, maxSGE: c.MaxSGE,
		buf: c.Buf, stride: uintptr(c.Stride), segs: int(c.Stride)/segSize - 1,
		ids: make([]uint64, c.WQEs), used: make([]bool, c.WQEs), head: c.Head, tail: c.Tail, dbrec: c.DBRec,
		counter: uint16(bits.ReverseBytes32(*(*uint32)(c.DBRec))),
	}
	s.plain.Store(uint32(s.segs))
	return s
}

// Watched reports whether completions may carry payloads of the SRQ's receives, and there is memory that these may not
// be copied to: the caller checks the keys of receives before it posts them.
func (s *SRQ) Watched() bool { return s.watched.Load() }

func (s *SRQ) wqe(i uint32) unsafe.Pointer { return unsafe.Add(s.buf, uintptr(i)*s.stride) }

// list returns where the scatter list of WQE i begins.
func (s *SRQ) list(i uint32) unsafe.Pointer { return unsafe.Add(s.wqe(i), segSize) }

// next is the link of WQE i: 2 bytes at offset 2.
//
// C: struct mlx5_wqe_srq_next_seg (rdma-core v44.0, providers/mlx5/mlx5dv.h:1237).
func (s *SRQ) next(i uint32) uint32 {
	return uint32(bits.ReverseBytes16(*(*uint16)(unsafe.Add(s.wqe(i), 2))))
}

// Post posts receives until one has SGEs that it cannot take or the SRQ is full, and returns how many it took. One WQE
// always stays free. Preconditions: the lock is held.
func (s *SRQ) Post(wrs []RecvWR) int {
	n := 0
	for ; n < len(wrs) && s.head != s.tail; n++ {
		wr := &wrs[n]
		i, to := s.head, s.next(s.head)
		// A link that was overwritten: nothing may follow it.
		if !fits(wr.SGEs, s.maxSGE) || to >= uint32(len(s.ids)) || s.used[to] {
			break
		}
		putList(s.list(i), wr.SGEs, s.segs)
		s.ids[i], s.used[i] = wr.ID, true
		s.head = to
		s.counter++
	}
	if n > 0 {
		s.ring()
	}
	return n
}

func (s *SRQ) ring() { mmio.Record(s.dbrec, bits.ReverseBytes32(uint32(s.counter))) }

// take completes the receive of WQE i, gives the WQE back and returns its id, or false when i is not posted.
func (s *SRQ) take(i uint32) (id uint64, ok bool) {
	s.mu.Lock()
	if ok = s.complete(i); ok {
		id = s.ids[i]
	}
	s.mu.Unlock()
	return id, ok
}

// complete gives WQE i back, or returns false when i is not posted. The content of the WQE stays until the lock is
// released.
// Preconditions: the lock is held.
func (s *SRQ) complete(i uint32) bool {
	if i >= uint32(len(s.used)) || !s.used[i] {
		return false
	}
	s.free(i)
	return true
}

func (s *SRQ) free(i uint32) {
	s.used[i] = false
	*(*uint16)(unsafe.Add(s.wqe(s.tail), 2)) = bits.ReverseBytes16(uint16(i))
	s.tail = i
}

// repost posts WQE i, which the device gave up because of a page fault, once more.
//
// C: srq_repost (rdma-core v44.0, providers/mlx5/srq.c:126).
func (s *SRQ) repost(i uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i >= uint32(len(s.ids)) || !s.used[i] {
		return false
	}
	s.free(i) // first: the list may have no other to post
	h := s.head
	to := s.next(h)
	if to >= uint32(len(s.ids)) || s.used[to] {
		return false
	}
	copy(unsafe.Slice((*byte)(s.list(h)), s.segs*segSize), unsafe.Slice((*byte)(s.list(i)), s.segs*segSize))
	s.ids[h], s.used[h] = s.ids[i], true
	s.head = to
	s.counter++
	s.ring()
	return true
}
