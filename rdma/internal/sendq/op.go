package sendq

import (
	"encoding/binary"

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

// MayRead lets so many reads and atomics be under way.
func (q *Queue[H, O]) MayRead(n int) { q.ops.most = n }

// PutResults is where atomics put what there was: ResultsLen bytes, which the device knows as into.
func (q *Queue[H, O]) PutResults(mem []byte, into ibv.SGE) { q.ops.results, q.ops.into = mem, into }

// ready reports whether a work request of the first operation may be posted.
func (m *operations[H, O]) ready() bool {
	o := *m.list.First()
	return m.reads < m.most || !o.Steps[o.at].reads()
}

// Submit queues an operation. Window is for binds and invalidations, Op for all others.
func (q *Queue[H, O]) Submit(w What, o *Operation[H, O]) {
	q.lane(w).Push(o)
	q.due |= w.bit()
}

func (q *Queue[H, O]) lane(w What) *fifo.Queue[*Operation[H, O]] {
	if w == Window {
		return &q.ops.windows
	}
	return &q.ops.list
}

// addStep adds the next work request of the first operation.
func (q *Queue[H, O]) addStep(w What) {
	m, lane := &q.ops, q.lane(w)
	o := *lane.First()
	st := &o.Steps[o.at]
	wr, at := q.bell.add(st.Opcode)
	sges := q.bell.sges[at][:1]
	size := min(st.Len-o.done, PieceMost)
	switch st.Opcode {
	case ibv.OpBindMW:
		wr.Bind = st.Bind
	case ibv.OpLocalInv:
		wr.InvalidateRKey = st.Remote.RKey
	default:
		wr.Remote = ibv.RemoteAddr{Addr: st.Remote.Addr + uint64(o.done), RKey: st.Remote.RKey}
		sges[0] = ibv.SGE{Addr: st.Addr + uint64(o.done), Length: uint32(size), LKey: st.LKey}
		if st.atomic() {
			size = st.Len
			sges[0] = ibv.SGE{Addr: m.into.Addr + uint64(8*(q.under.posted%Depth)), Length: 8, LKey: m.into.LKey}
			wr.CompareAdd, wr.Swap = st.Add, st.Swap
		}
		wr.SGEs = sges
	}
	s := slot[H, O]{op: o, read: st.reads(), atomic: st.atomic()}
	o.under++
	full := false
	if s.read {
		m.reads++
		full = m.reads == m.most
	}
	if o.done += size; o.done == st.Len {
		o.at, o.done = o.at+1, 0
	}
	if o.at == len(o.Steps) {
		o.posted = true
		full = full || !o.Quiet
		lane.Pop()
		q.SetDue(w, lane.Len() > 0)
		if o.Noting && !q.Note(o.Note) {
			q.bell.giveBack(o.Note.Held)
		}
		o.Noting = false
	}
	if w == Op {
		m.turn = false
	}
	q.under.post(wr, s, full, signalWork)
}

// complete counts a work request of an operation as completed.
func (m *operations[H, O]) complete(s *slot[H, O], at uint32, failed bool) {
	o := s.op
	if s.read {
		m.reads--
	}
	if failed {
		o.Failed = true
	} else if s.atomic {
		o.Result = binary.NativeEndian.Uint64(m.results[8*at:])
	}
	if o.under--; o.under == 0 && o.posted {
		m.finished.Push(o)
	}
}

// Finished returns an operation that has ended, or nil.
func (q *Queue[H, O]) Finished() *Operation[H, O] {
	if q.ops.finished.Len() == 0 {
		return nil
	}
	return q.ops.finished.Pop()
}

// Remove takes the operations out of the queue that match, and returns them. Each is to be dropped.
func (q *Queue[H, O]) Remove(match func(*Operation[H, O]) bool) (list []*Operation[H, O]) {
	q.ops.list.Remove(func(o *Operation[H, O]) bool {
		if !match(o) {
			return false
		}
		list = append(list, o)
		return true
	})
	q.SetDue(Op, q.ops.list.Len() > 0)
	return list
}

// Drop posts nothing more of an operation that was removed, and reports whether it has nothing under way. If it has,
// Finished returns it later. The memory of its note is the caller's.
func (q *Queue[H, O]) Drop(o *Operation[H, O]) (idle bool) {
	o.posted, o.Noting = true, false
	if o.under > 0 {
		q.Ask(All)
	}
	return o.under == 0
}
