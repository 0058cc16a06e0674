package sendq

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/fifo"
)

// ProbeAt has probes read one byte of the peer's into own memory. siw answers a read of no bytes with those of its last
// work request if it is busy, or ends the connection (siw_activate_tx, Linux 6.1).
func (q *Queue[H, O]) ProbeAt(remote ibv.RemoteAddr, own ibv.SGE) {
	q.probe = Step{Opcode: ibv.OpRead, Addr: own.Addr, LKey: own.LKey, Len: 1, Remote: remote}
}

// Submit queues an operation. Window is for binds and invalidations, Op for all others. If its last step is a write, a
// probe is added where that is needed to know that the peer's adapter has the data.
func (q *Queue[H, O]) Submit(w What, o *Operation[H, O]) {
	if q.opt.Probe && w == Op && o.Steps[len(o.Steps)-1].Opcode == ibv.OpWrite {
		o.Steps = append(o.Steps, q.probe)
	}
	if o.Noting {
		q.data.coming++
	}
	q.lane(w).Push(o)
	q.due |= w.bit()
}

func (q *Queue[H, O]) lane(w What) *fifo.Queue[*Operation[H, O]] {
	if w == Window {
		return &q.ops.windows
	}
	return &q.ops.list
}

// Remove takes the operations out of the queue that match, and returns them. Each is to be dropped.
func (q *Queue[H, O]) Remove(match func(*Operation[H, O]) bool) (list []*Operation[H, O]) {
	q.ops.list.Remove(func(o *Operation[H, O]) bool {
		if !match(o) {
			return false
		}
		if o.Noting {
			q.data.coming--
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

// MayRead lets so many reads and atomics be under way.
func (q *Queue[H, O]) MayRead(n int) { q.ops.most = n }
