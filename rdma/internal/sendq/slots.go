package sendq

import "github.com/pureverbs/pureverbs/ibv"

const (
	// Depth is how many work requests may be under way, if the device grants so many.
	Depth = 32
	// LeastDepth is the least that a queue works with.
	LeastDepth = 2 * ownDepth

	ownDepth = 4 // of them for frames without content and about leases alone
)

// slots are the work requests under way. The completion of a signaled one confirms all before it, so the memory of the
// others is returned at that time. At least each Limits.signalWork-th is signaled.
type slots[H comparable, O any] struct {
	list     [Depth]slot[H, O]
	Posted   uint32 // work requests; their IDs are their numbers, from 0 on
	Done     uint32 // of them completed, with success or without
	Acked    uint32 // of them confirmed
	Failed   bool   // some have
	probed   uint32 // of them that the last probe confirms
	asked    uint32 // posted when the last probe was posted
	probes   int    // under way
	signaled uint32 // posted when the last signaled one was posted
	holding  uint32 // of those since then, that hold something
	lending  uint32 // of them, that hold memory that others than senders wait for
}

// slot is a work request under way.
type slot[H comparable, O any] struct {
	held   H
	op     *Operation[H, O]
	n      int32 // bytes of data
	part   part
	lent   bool // held is
	read   bool // it counts as a read
	probe  bool // it confirms what was posted before
	atomic bool
}

// post counts a work request, which is signaled if forced, or if it is the every-th without.
func (u *slots[H, O]) post(wr *ibv.SendWR, s slot[H, O], forced bool, every uint32) {
	wr.ID = uint64(u.Posted)
	u.list[u.Posted%Depth] = s
	u.Posted++
	if s.probe {
		u.asked = u.Posted
		u.probes++
	}
	var nothing H
	switch {
	case forced || u.Posted-u.signaled >= every:
		wr.Flags |= ibv.Signaled
		u.signaled, u.holding, u.lending = u.Posted, 0, 0
	case s.held != nothing:
		u.holding++
		if s.lent {
			u.lending++
		}
	}
}

// Wait is a wait for the completion of the work requests before UpTo.
type Wait struct {
	UpTo uint32
	C    chan struct{} // closed when they have completed, or by EndWaits
}
