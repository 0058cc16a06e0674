package sendq

import (
	"math/bits"

	"github.com/pureverbs/pureverbs/rdma/internal/fifo"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

const (
	// Depth is how many work requests may be under way.
	Depth = 32
	// dataDepth is how many may be under way for a data frame or an operation to be added, so that a frame without
	// content or about leases finds room.
	dataDepth = Depth - 4

	signalWork = 24 // every so many work requests of operations one is signaled, less than dataDepth
	scarce     = 2  // every so many data frames one is signaled while blocks are scarce
)

// Options are the choices of New.
type Options struct {
	Stage  int    // most data frames that are staged, but for held ones and notes
	Signal uint32 // every so many frames one is signaled: Depth/4, or less if they are long
	Posts  int    // work requests for one doorbell
}

// Queue is the sending side of a connection. It has no lock: the connection's lock guards it. H is the memory of a data
// frame, O the owner of an operation.
type Queue[H comparable, O any] struct {
	opt Options

	due   Set // everything that there is to send, whether it may be sent or not
	gates Gates
	aux   [kinds]uint32 // of RESET and FIN
	at    [kinds]uint32 // work request that was the last of its kind
	sent  Set           // kinds that at is valid for

	data     staging[H]
	controls fifo.Queue[wire.Control]
	ops      operations[H, O]

	under slots[H, O]
	bell  doorbell[H]
	waits []*Wait
	lost  Lost
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
	return Queue[H, O]{opt: o, data: staging[H]{most: o.Stage}, bell: newDoorbell[H](o.Posts)}
}

// Begin begins the list of work requests for a doorbell.
func (q *Queue[H, O]) Begin(g Gates) {
	q.gates = g
	q.bell.begin()
}

// Pick returns what is to be added to the list of work requests, or None.
func (q *Queue[H, O]) Pick() What {
	ready := q.due
	if ready == 0 || q.UnderWay() >= Depth || q.bell.full() {
		return None
	}
	busy := q.UnderWay() >= dataDepth
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
	return What(bits.TrailingZeros16(uint16(ready | None.bit())))
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
	default:
		p := &plain[what]
		h.Kind, h.Flags, h.Length = p.kind, p.flags, 0
		if what == Reset || what == FIN {
			h.Aux = q.aux[what]
		}
		q.due &^= what.bit()
		q.sent |= what.bit()
		q.at[what] = q.under.posted
		q.addFrame(&h, nil, p.signal)
	}
}

// addFrame adds a frame with at most a short payload.
func (q *Queue[H, O]) addFrame(h *wire.Header, payload []byte, forced bool) {
	wr := q.bell.control(h, payload)
	q.under.post(wr, slot[H, O]{}, forced, q.opt.Signal)
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
		wr := q.bell.control(h, nil)
		q.under.post(wr, slot[H, O]{n: f.N, part: partOf(f.Flags)}, false, q.opt.Signal)
		return
	}
	wr, inline := q.bell.frame(h, &f)
	s := slot[H, O]{held: f.Held, lent: f.Lent, n: f.N, part: partOf(f.Flags)}
	if inline {
		q.bell.giveBack(f.Held)
		s.held, s.lent = *new(H), false
	}
	q.under.post(wr, s, f.Soon || f.Last && q.gates.Wanted, every)
}

// Doorbell returns the work requests to post. They are valid until the next Begin.
func (q *Queue[H, O]) Doorbell() []SendWR { return q.bell.wrs }

// Inlined returns the memory of data that is in the work requests, or that is not sent after all. The caller returns it
// when they were posted. The list is valid until the next Begin.
func (q *Queue[H, O]) Inlined() []H { return q.bell.back }

// UnderWay returns how many work requests have not completed.
func (q *Queue[H, O]) UnderWay() uint32 { return q.under.posted - q.under.done }

// Posted returns how many work requests there have been. Their IDs are their numbers, from 0 on.
func (q *Queue[H, O]) Posted() uint32 { return q.under.posted }

// Done returns how many of them have completed, with success or without.
func (q *Queue[H, O]) Done() uint32 { return q.under.done }

// Acked returns how many of them have completed with success.
func (q *Queue[H, O]) Acked() uint32 { return q.under.acked }
