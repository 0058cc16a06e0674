package sendq

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/fifo"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Options are the choices of New.
type Options struct {
	Stage  int    // most data frames that are staged, but for held ones and notes
	Signal uint32 // every so many frames one is signaled: Depth/4, or less if they are long
	Posts  int    // work requests for one doorbell
	// Probe says that the completion of a frame or a write does not show that the peer's adapter has it. Then a read
	// follows, and only the completion of a read confirms what was posted before: see ProbeAt.
	Probe bool
}

// Limits are the sizes that a device grants a queue pair, and the length of messages that its port has.
type Limits struct {
	Depth  int // work requests under way, LeastDepth or more; Depth counts of more
	Inline int // bytes of a frame that are copied into its work request; MaxInline counts of more
	Piece  int // bytes that a work request reads or writes; PieceMost counts of more
}

// Queue is the sending side of a connection. It has no lock: the connection's lock guards it. H is the memory of a data
// frame, O the owner of an operation.
type Queue[H comparable, O any] struct {
	opt     Options
	limits  Limits
	scratch scratch

	due   Set // everything that there is to send, whether it may be sent or not
	gates Gates
	aux   [kinds]uint32 // of RESET and FIN
	at    [kinds]uint32 // work request that was the last of its kind
	sent  Set           // kinds that at is valid for

	data     staging[H]
	controls fifo.Queue[wire.Control]
	ops      operations[H, O]

	slots[H, O]
	bell  doorbell[H]
	waits []*Wait
	lost  Lost
	probe Step // what a probe reads, and where to
}

// Gates limit the next doorbell.
type Gates struct {
	Data    uint32 // credits for data frames
	Control uint32 // credits for frames about leases
	Scarce  bool   // blocks are scarce: data frames are signaled soon
	Wanted  bool   // somebody waits for a buffer: the last frame of each is signaled
}

// New makes an empty queue.
func New[H comparable, O any](o Options) Queue[H, O] {
	return Queue[H, O]{opt: o, limits: Limits{Depth, MaxInline, PieceMost}, data: staging[H]{most: o.Stage},
		bell: newDoorbell[H](o.Posts)}
}

// Limit is called before anything is posted, on a device that grants less than Depth, MaxInline or PieceMost. It
// reports whether frames need memory: see PutScratch.
func (q *Queue[H, O]) Limit(l Limits) (needsScratch bool) {
	q.limits = Limits{min(l.Depth, Depth), min(l.Inline, MaxInline), min(l.Piece, PieceMost)}
	q.opt.Signal = min(q.opt.Signal, max(uint32(q.limits.Depth/4), 1))
	return q.limits.Inline < MaxInline
}

// PutScratch gives the queue ScratchLen bytes of memory, which the device knows as at. The queue uses it until all work
// requests have completed.
func (q *Queue[H, O]) PutScratch(mem []byte, at ibv.SGE) { q.scratch = scratch{mem, at} }

// HasScratch reports whether it has.
func (q *Queue[H, O]) HasScratch() bool { return q.scratch.mem != nil }

// UnderWay returns how many work requests have not completed.
func (q *Queue[H, O]) UnderWay() uint32 { return q.Posted - q.Done }

// SetDue makes a frame without content due or not: Lower, Answer, Limit or Ping. When it is added, it is no longer due.
func (q *Queue[H, O]) SetDue(w What, due bool) {
	if due {
		q.due |= w.bit()
	} else {
		q.due &^= w.bit()
	}
}

// IsDue reports whether w is due and was not added yet.
func (q *Queue[H, O]) IsDue(w What) bool { return q.due.Has(w) }

// Idle reports whether nothing is due.
func (q *Queue[H, O]) Idle() bool { return q.due == 0 }

// DueEnd makes a RESET or a FIN due. A second FIN, which may say more, is another frame.
func (q *Queue[H, O]) DueEnd(w What, aux uint32) {
	q.aux[w] = aux
	q.due |= w.bit()
}

// Sent reports whether a frame of this kind was added since it was last due.
func (q *Queue[H, O]) Sent(w What) bool { return q.sent.Has(w) && !q.due.Has(w) }

// Ending reports whether a FIN is due or was added: nothing may be staged any more.
func (q *Queue[H, O]) Ending() bool { return (q.due | q.sent).Has(FIN) }

// Confirmed reports whether the last frame of this kind is in the peer's memory, and no other is due.
func (q *Queue[H, O]) Confirmed(w What) bool { return q.Sent(w) && wire.Before(q.at[w], q.Acked) }

// Tell queues a frame about leases.
func (q *Queue[H, O]) Tell(c wire.Control) {
	q.controls.Push(c)
	q.due |= Control.bit()
}

// Told returns how many frames about leases wait for a credit.
func (q *Queue[H, O]) Told() int { return q.controls.Len() }

// FirstTold returns the first of them. The caller may change its payload until it is added.
func (q *Queue[H, O]) FirstTold() *wire.Control { return q.controls.First() }
