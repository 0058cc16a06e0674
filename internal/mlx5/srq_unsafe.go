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
	WQEs       uint32 // in the buffer, without Spare: Tail may not be its last one
	Spare      uint32 // WQEs behind these, linked, which libmlx5 keeps for receives with page faults
	DBRec      unsafe.Pointer
}

// AddSpare finds the spare WQEs in a buffer of n WQEs. libmlx5 has them since v24, if the device admits twice as many
// WQEs as it was asked for.
//
// C: mlx5_alloc_srq_buf (rdma-core v44.0, providers/mlx5/srq.c:252).
func (c *SRQConfig) AddSpare(n uint32) {
	s := &SRQ{buf: c.Buf, stride: uintptr(c.Stride)}
	for i := c.WQEs; i+1 < n; i++ {
		if s.next(i) != i+1 {
			return
		}
	}
	c.Spare = max(n, c.WQEs) - c.WQEs
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

	// WQEs that wait after a page fault, a list with as many entries as there were spare WQEs.
	spare             uint32
	coolHead, coolEnd uint32
}

// NewSRQ takes an SRQ over, before anything was posted. mu guards it.
func NewSRQ(c *SRQConfig, mu *spin.Lock) *SRQ {
	s := &SRQ{
		mu: mu, maxSGE: c.MaxSGE,
		buf: c.Buf, stride: uintptr(c.Stride), segs: int(c.Stride)/segSize - 1,
		ids: make([]uint64, c.WQEs+c.Spare), used: make([]bool, c.WQEs+c.Spare), head: c.Head, tail: c.Tail,
		dbrec: c.DBRec, counter: uint16(bits.ReverseBytes32(*(*uint32)(c.DBRec))),
		spare: c.Spare, coolHead: c.WQEs, coolEnd: c.WQEs + c.Spare - 1,
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
		if !fits(wr.SGEs, s.maxSGE) || !s.idle(to) {
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
	s.link(s.tail, i)
	s.tail = i
}

// link makes WQE to the next one of WQE i.
func (s *SRQ) link(i, to uint32) {
	*(*uint16)(unsafe.Add(s.wqe(i), 2)) = bits.ReverseBytes16(uint16(to))
}

// cool puts WQE i behind those that wait, and returns the one that has waited longest, or i if there is no such list.
// The kernel reads a WQE that had a page fault, and may do so late, when a receive could have been written over it. ok
// is false if a link was overwritten.
//
// C: srq_cooldown_wqe (rdma-core v44.0, providers/mlx5/srq.c:112).
func (s *SRQ) cool(i uint32) (free uint32, ok bool) {
	if s.spare == 0 {
		return i, true
	}
	s.link(s.coolEnd, i)
	s.coolEnd = i
	free = s.coolHead
	to := s.next(free)
	if !s.idle(to) {
		return 0, false
	}
	s.coolHead = to
	return free, true
}

// idle reports whether there is a WQE i that is not posted.
func (s *SRQ) idle(i uint32) bool { return i < uint32(len(s.used)) && !s.used[i] }

// repost posts WQE i, which the device gave up because of a page fault, once more.
//
// C: mlx5_complete_odp_fault (rdma-core v44.0, providers/mlx5/srq.c:153).
func (s *SRQ) repost(i uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i >= uint32(len(s.ids)) || !s.used[i] {
		return false
	}
	s.used[i] = false
	free, ok := s.cool(i)
	if !ok {
		return false
	}
	s.free(free) // first: the list may have no other to post
	h := s.head
	to := s.next(h)
	if !s.idle(to) {
		return false
	}
	copy(unsafe.Slice((*byte)(s.list(h)), s.segs*segSize), unsafe.Slice((*byte)(s.list(i)), s.segs*segSize))
	s.ids[h], s.used[h] = s.ids[i], true
	s.head = to
	s.counter++
	s.ring()
	return true
}
