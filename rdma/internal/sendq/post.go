package sendq

import (
	"math/bits"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

const (
	scarce     = 2 // every so many data frames one is signaled while blocks are scarce
	probesMost = 4 // probes under way for another one that nobody waits for
)

// dataDepth is how many may be under way for a data frame or an operation to be added, so that a frame without content
// or about leases finds room.
func (l *Limits) dataDepth() uint32 { return uint32(l.Depth - ownDepth) }

// signalWork says that every so many work requests of operations one is signaled, fewer than dataDepth.
func (l *Limits) signalWork() uint32 { return l.dataDepth() * 6 / 7 }

// Begin begins the list of work requests for a doorbell.
func (q *Queue[H, O]) Begin(g Gates) {
	q.gates = g
	q.bell.begin()
}

// Pick returns what is to be added to the list of work requests, or None. If only a probe confirms what was posted, one
// follows when nothing else is to be posted, so that a sender knows as much as by the acknowledgements of RC.
func (q *Queue[H, O]) Pick() What {
	ready := q.due
	if ready == 0 && !q.opt.Probe || q.UnderWay() >= uint32(q.limits.Depth) || q.bell.full() {
		return None
	}
	busy := q.UnderWay() >= q.limits.dataDepth()
	if busy || q.gates.Data == 0 {
		ready &^= Data.bit()
	}
	if q.gates.Control == 0 {
		ready &^= Control.bit()
	}
	if !q.data.ended() {
		ready &^= FIN.bit()
	}
	if ready&Op.bit() != 0 {
		if busy || !q.ops.ready() {
			ready &^= Op.bit()
		} else if q.ops.turn {
			ready &^= Data.bit()
		}
	}
	if ready == 0 && q.unsure() {
		return Probe
	}
	return What(bits.TrailingZeros16(uint16(ready | None.bit())))
}

// unsure reports whether another probe has something to confirm.
func (q *Queue[H, O]) unsure() bool {
	u := &q.slots
	return q.opt.Probe && u.probes < probesMost && u.asked != u.Posted && q.UnderWay() < q.limits.dataDepth()
}

// Add adds what Pick has returned to the list of work requests. If it is a frame, h has its limit and number, and the
// aux of a LIMIT.
func (q *Queue[H, O]) Add(what What, h wire.Header) {
	switch what {
	case Data:
		q.addData(&h)
	case Control:
		c := q.controls.Pop()
		q.gates.Control--
		q.SetDue(Control, q.controls.Len() > 0)
		h.Kind, h.Aux, h.Length = c.Kind, c.Aux, uint32(len(c.Payload()))
		q.addFrame(&h, c.Payload(), false)
	case Window, Op:
		q.addStep(what)
	case Probe:
		q.due &^= what.bit()
		wr, at := q.bell.add(ibv.OpRead)
		wr.SGEs, wr.Remote = q.bell.mem[at].sges[:1], q.probe.Remote
		wr.SGEs[0] = ibv.SGE{Addr: q.probe.Addr, Length: uint32(q.probe.Len), LKey: q.probe.LKey}
		q.ops.reads++
		q.slots.post(wr, slot[H, O]{read: true, probe: true}, true, q.opt.Signal)
	default:
		p := &plain[what]
		h.Kind, h.Flags, h.Length = p.kind, p.flags, 0
		if what == Reset || what == FIN {
			h.Aux = q.aux[what]
		}
		q.due &^= what.bit()
		q.sent |= what.bit()
		q.at[what] = q.Posted
		q.addFrame(&h, nil, p.signal)
		if p.signal && q.opt.Probe {
			q.due |= Probe.bit()
		}
	}
}

// addFrame adds a frame with at most a short payload.
func (q *Queue[H, O]) addFrame(h *wire.Header, payload []byte, forced bool) {
	wr := q.control(h, payload)
	q.slots.post(wr, slot[H, O]{}, forced, q.opt.Signal)
}

// addData adds the first staged data frame.
func (q *Queue[H, O]) addData(h *wire.Header) {
	f := q.data.pop()
	q.SetDue(Data, q.data.frames.Len() > 0)
	q.gates.Data--
	q.ops.turn = true
	h.Kind, h.Flags, h.Length, h.Aux = wire.Data, f.Flags, uint32(f.N), f.Aux
	every := q.opt.Signal
	if q.gates.Scarce {
		every = min(every, scarce)
	}
	if f.Mem == nil {
		wr := q.control(h, nil)
		q.slots.post(wr, slot[H, O]{n: f.N, part: partOf(f.Flags)}, false, q.opt.Signal)
		return
	}
	wr, inline := q.frame(h, &f)
	s := slot[H, O]{held: f.Held, lent: f.Lent, n: f.N, part: partOf(f.Flags)}
	if inline {
		q.bell.giveBack(f.Held)
		s.held, s.lent = *new(H), false
	}
	q.slots.post(wr, s, f.Soon || f.Last && q.gates.Wanted, every)
}

// addStep adds the next work request of the first operation.
func (q *Queue[H, O]) addStep(w What) {
	m, lane := &q.ops, q.lane(w)
	o := *lane.First()
	st := &o.Steps[o.at]
	wr, at := q.bell.add(st.Opcode)
	sges := q.bell.mem[at].sges[:1]
	size := min(st.Len-o.done, q.limits.Piece)
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
			sges[0] = q.scratch.result(q.Posted)
			wr.CompareAdd, wr.Swap = st.Add, st.Swap
		}
		wr.SGEs = sges
	}
	s := slot[H, O]{op: o, read: st.reads(), probe: q.opt.Probe && st.Opcode == ibv.OpRead, atomic: st.atomic()}
	o.under++
	full := s.probe // slots.asked promises its completion
	if s.read {
		m.reads++
		full = full || m.reads == m.most
	}
	if o.done += size; o.done == st.Len {
		o.at, o.done = o.at+1, 0
	}
	if o.at == len(o.Steps) {
		o.posted = true
		full = full || !o.Quiet
		lane.Pop()
		q.SetDue(w, lane.Len() > 0)
		if o.Noting {
			q.data.coming--
			if !q.Note(o.Note) {
				q.bell.giveBack(o.Note.Held)
			}
		}
		o.Noting = false
	}
	if w == Op {
		m.turn = false
	}
	q.slots.post(wr, s, full, q.limits.signalWork())
}

// Doorbell returns the work requests to post. They are valid until the next Begin.
func (q *Queue[H, O]) Doorbell() []ibv.SendWR { return q.bell.wrs }

// Inlined returns the memory of data that is in the work requests, or that is not sent after all. The caller returns it
// when they were posted. The list is valid until the next Begin.
func (q *Queue[H, O]) Inlined() []H { return q.bell.back }
