package ops

import (
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// Room counts the free places of a send queue.
//
// It is for libmlx5. In all releases up to v64.0 its functions behind ibv_wr_* go on after they have found the queue
// full, and the first of a session then writes over the work request that was posted last, which the device may not
// have read yet (rdma-core v44.0, providers/mlx5/qp.c:1244). So a session begins only if there is room for it.
//
// As in libmlx5, the completion of a work request frees its place and those of all before it.
type Room struct {
	mu       sync.Mutex
	places   uint32
	head     uint32   // work requests posted
	tail     uint32   // of these, completed
	signaled []uint32 // a ring: the numbers of those that will give a completion, oldest first
	first    uint32   // of signaled
	next     uint32
	posted   []place // a ring: the work requests that have not completed, oldest first
	oldest   uint32  // of posted
	newest   uint32
	before   struct{ head, next, newest uint32 } // the last session
	all      bool                                // each work request gives a completion
}

// place is a work request in the queue.
type place struct {
	id  uint64
	end uint32 // the number of the next one
}

func newRoom(places int, all bool) *Room {
	n := max(places, 1)
	return &Room{places: uint32(places), signaled: make([]uint32, n), posted: make([]place, n), all: all}
}

// Free returns the number of free places.
func (r *Room) Free() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.places - (r.head - r.tail))
}

// reserve takes places for a session. There are enough.
func (r *Room) reserve(wrs []abi.SendWR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before.head, r.before.next, r.before.newest = r.head, r.next, r.newest
	for i := range wrs {
		r.head += places(&wrs[i])
		r.posted[r.newest%uint32(len(r.posted))] = place{id: wrs[i].WRID, end: r.head}
		r.newest++
		if r.all || wrs[i].SendFlags&abi.IBV_SEND_SIGNALED != 0 {
			r.signaled[r.next%uint32(len(r.signaled))] = r.head - 1
			r.next++
		}
	}
}

// giveBack undoes the last reserve, whose session was refused.
func (r *Room) giveBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head, r.next, r.newest = r.before.head, r.before.next, r.before.newest
	if int32(r.head-r.tail) < 0 {
		r.tail, r.first, r.oldest = r.head, r.next, r.newest
	}
}

// Completed notes the next successful completion of the queue.
func (r *Room) Completed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == r.next {
		return
	}
	r.free(r.signaled[r.first%uint32(len(r.signaled))] + 1)
}

// Failed notes a failed completion. Only its ID shows whether it is of this queue or of receives, and it may be of a
// work request that asked for none. Of several with the ID it is taken for the last: a queue that is thought full for
// ever would be worse.
func (r *Room) Failed(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := r.newest; i != r.oldest; {
		i--
		if p := r.posted[i%uint32(len(r.posted))]; p.id == id {
			r.free(p.end)
			return
		}
	}
}

// free frees the places before upTo.
func (r *Room) free(upTo uint32) {
	r.tail = upTo
	for r.first != r.next && int32(r.signaled[r.first%uint32(len(r.signaled))]-upTo) < 0 {
		r.first++
	}
	for r.oldest != r.newest && int32(r.posted[r.oldest%uint32(len(r.posted))].end-upTo) <= 0 {
		r.oldest++
	}
}

// Reset empties the queue.
func (r *Room) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tail, r.first, r.oldest = r.head, r.next, r.newest
}

// full is the errno of a queue without room.
const full = int(syscall.ENOMEM)

// isFull reports whether a provider refused a session for lack of room. SoftRoCE returns ENOSPC.
func isFull(errno int) bool { return errno == full || errno == int(syscall.ENOSPC) }
