package sendq

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/fifo"
)

// PieceMost is how many bytes one work request reads or writes: less is under way when a lease ends.
const PieceMost = 1 << 20

// Step is a part of an operation: a read or write, which may need several work requests, or an atomic, bind or
// invalidation.
type Step struct {
	Opcode    ibv.Opcode
	Addr      uint64 // local memory, unless it is an atomic
	LKey      uint32
	Len       int
	Remote    ibv.RemoteAddr // an invalidation uses the key only
	Add, Swap uint64
	Bind      *ibv.BindMW
}

// reads reports whether the step counts as a read.
func (s *Step) reads() bool { return s.Opcode == ibv.OpRead || s.atomic() }

func (s *Step) atomic() bool { return s.Opcode == ibv.OpFetchAdd || s.Opcode == ibv.OpCompareSwap }

// Operation is a list of work requests that complete together. Its owner may use it when Finished has returned it, or
// Drop has reported that it is idle.
type Operation[H comparable, O any] struct {
	Owner  O
	Steps  []Step   // at least one
	Note   Frame[H] // with Noting, a message of one frame that is sent behind the last step
	Noting bool
	Quiet  bool // nobody waits for it: the last work request need not be signaled

	Failed bool   // a work request of it has
	Result uint64 // of a step that is an atomic

	at, done int  // step to be posted next, and bytes of it that are
	under    int  // work requests under way
	posted   bool // nothing is left to be posted
}

// Begun reports whether a work request of it was posted.
func (o *Operation[H, O]) Begun() bool { return o.posted || o.at > 0 || o.done > 0 }

// Reset makes o an operation without steps, whose memory is used again. It must not be in a queue.
func (o *Operation[H, O]) Reset() {
	clear(o.Steps)
	*o = Operation[H, O]{Steps: o.Steps[:0]}
}

// operations are the operations that were not all posted.
type operations[H comparable, O any] struct {
	windows  fifo.Queue[*Operation[H, O]]
	list     fifo.Queue[*Operation[H, O]]
	finished fifo.Queue[*Operation[H, O]]
	turn     bool // a data frame was the last
	reads    int  // reads and atomics under way
	most     int  // of them
	results  []byte
	into     ibv.SGE // results
}

// ResultsLen is how many bytes of memory atomics need.
const ResultsLen = 8 * Depth

// ready reports whether a work request of the first operation may be posted.
func (m *operations[H, O]) ready() bool {
	o := *m.list.First()
	return m.reads < m.most || !o.Steps[o.at].reads()
}
