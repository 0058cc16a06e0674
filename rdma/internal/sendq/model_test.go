package sendq

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

const (
	most     = 512 // payload of a frame
	addrBits = 16
)

type operation = Operation[int, int]

// posted is a work request that the fake device has.
type posted struct {
	signaled bool
	held     []int // that it uses
	op       *operation
	read     bool
	probe    bool // it confirms what was posted before
	forced   bool // to be signaled
	every    int  // or if so many are without

	scratch []byte // a frame in scratch memory
	was     []byte // its content
}

// world is a queue with a device that completes work requests in order, and a peer that takes frames in. It keeps
// account on its own, in the plainest way.
type world struct {
	t   *testing.T
	rnd *rand.Rand
	q   Queue[int, int]

	mem   map[int][]byte // by the ID of what is held
	back  map[int]int    // how often it was given back
	inUse map[int]bool   // by the device

	credits, controlCredits int

	want    [][]byte // messages in the order in which they were staged; nil: it was taken back
	part    []byte   // of the message that is staged in part
	partIDs int
	notes   [][]byte
	got     [][]byte
	gotPart []byte
	fin     bool // added
	told    []uint32
	heard   []uint32

	limits  Limits
	scratch []byte

	device []posted // under way
	silent int      // posted since the last that is signaled
	loose  int      // posted since the last probe

	confirmed uint32 // work requests
	reads     int
	ops       map[*operation]int // work requests under way
	ended     map[*operation]bool
	broken    bool
	waits     []*Wait
}

func newWorld(t *testing.T, rnd *rand.Rand, o Options) *world {
	w := &world{t: t, rnd: rnd, q: New[int, int](o), mem: make(map[int][]byte), back: make(map[int]int),
		inUse: make(map[int]bool), ops: make(map[*operation]int), ended: make(map[*operation]bool)}
	w.q.MayRead(3)
	w.limits = Limits{Depth: []int{Depth, Depth, 16, LeastDepth}[rnd.IntN(4)],
		Inline: []int{MaxInline, 0, wire.HeaderLen, MaxInline - 1}[rnd.IntN(4)],
		Piece:  []int{PieceMost, 300_000}[rnd.IntN(2)]}
	if got := w.q.Limit(w.limits); got != (w.limits.Inline < MaxInline) {
		w.fail("frames need memory: %v, with %d bytes in a work request", got, w.limits.Inline)
	}
	w.scratch = make([]byte, ScratchLen)
	w.q.PutScratch(w.scratch, ibv.SGE{Addr: scratchID << addrBits, LKey: scratchID})
	return w
}

// scratchID names scratch memory where others are named by what is held.
const scratchID = 1 << 20

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf(format, args...)
}

// memory returns something to hold, with n bytes of memory full of others' data.
func (w *world) memory(n int) (id int, addr uint64) {
	id = len(w.mem) + 1
	w.mem[id] = bytes.Repeat([]byte{0xa5}, n)
	return id, uint64(id) << addrBits
}

// frame makes a frame in a block, or of a buffer with or without a block.
func (w *world) frame(p []byte, flags uint8, aux uint32) Frame[int] {
	id, addr := w.memory(headroom + most)
	f := Frame[int]{Held: id, Mem: w.mem[id], Addr: addr, LKey: uint32(id), N: int32(len(p)), Flags: flags, Aux: aux}
	if flags&wire.FlagMore == 0 && w.part == nil {
		f.Alone = w.rnd.IntN(2) == 0
	}
	f.Lent, f.Last, f.Soon = w.rnd.IntN(4) == 0, w.rnd.IntN(4) == 0, w.rnd.IntN(8) == 0
	if !f.Alone && len(p) > 0 && w.rnd.IntN(3) == 0 {
		at := 1000
		f.Tail = ibv.SGE{Addr: uint64(id)<<addrBits | uint64(at), Length: uint32(len(p)), LKey: uint32(id)}
		w.mem[id] = append(w.mem[id], make([]byte, at+len(p)-len(w.mem[id]))...)
		f.Mem = w.mem[id][:headroom]
		copy(w.mem[id][at:], p)
		return f
	}
	copy(f.Mem[headroom:], p)
	return f
}

func (w *world) payload(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(w.rnd.Uint32())
	}
	return p
}

// giveBack counts what is given back.
func (w *world) giveBack(id int) {
	w.t.Helper()
	if w.back[id]++; w.back[id] > 1 || w.mem[id] == nil {
		w.fail("%d was given back %d times", id, w.back[id])
	}
	if w.inUse[id] {
		w.fail("%d was given back while the device uses it", id)
	}
}

// next is what Pick is to return behind what was added, as a list of conditions.
func (w *world) next(list []posted) What {
	q, added := &w.q, len(list)
	under := len(w.device) + added
	loose, probes := w.loose, 0
	for _, p := range w.device {
		if p.probe {
			probes++
		}
	}
	for _, p := range list {
		if loose++; p.probe {
			loose = 0
			probes++
		}
	}
	busy := under >= w.limits.Depth-4
	opReady := false
	if q.ops.list.Len() > 0 && !busy {
		o := *q.ops.list.First()
		opReady = o.Steps[o.at].Opcode == ibv.OpWrite || w.reads < 3
	}
	switch {
	case under == w.limits.Depth, added == cap(q.bell.wrs):
		return None
	case q.IsDue(Reset):
		return Reset
	case q.IsDue(Lower):
		return Lower
	case q.IsDue(Answer):
		return Answer
	case q.ops.windows.Len() > 0:
		return Window
	case q.Staged() > 0 && w.credits > 0 && !busy && !(q.ops.turn && opReady):
		return Data
	case q.Told() > 0 && w.controlCredits > 0:
		return Control
	case q.IsDue(Limit):
		return Limit
	case q.IsDue(FIN) && q.Staged() == 0 && w.part == nil:
		return FIN
	case q.IsDue(Ping):
		return Ping
	case q.IsDue(Probe):
		return Probe
	case opReady:
		return Op
	case q.opt.Probe && loose > 0 && probes < 4 && !busy:
		return Probe
	}
	return None
}

// pump posts what may be sent.
func (w *world) pump() {
	w.t.Helper()
	for !w.broken {
		g := Gates{Data: uint32(w.credits), Control: uint32(w.controlCredits), Scarce: w.rnd.IntN(4) == 0,
			Wanted: w.rnd.IntN(4) == 0}
		w.q.Begin(g)
		list := []What{}
		opReads := []posted{}
		for {
			want := w.next(opReads)
			what := w.q.Pick()
			if what != want {
				w.fail("Pick returned %d after %v, want %d", what, list, want)
			}
			if what == None {
				break
			}
			p := posted{every: int(w.q.opt.Signal), forced: what == Reset || what == FIN || what == Ping}
			switch what {
			case Data:
				w.credits--
				f := w.q.data.frames.First()
				p.forced = f.Soon || f.Last && g.Wanted
				if g.Scarce && f.Mem != nil {
					p.every = 2
				}
				if f.Mem != nil && (wire.HeaderLen+int(f.N) > w.limits.Inline || f.Tail.Length > 0) {
					p.held = append(p.held, f.Held)
				}
			case Control:
				w.controlCredits--
			case Probe:
				w.reads++
				p.read, p.probe, p.forced = true, true, true
			case Op, Window:
				p.op = *w.q.lane(what).First()
				st := &p.op.Steps[p.op.at]
				p.read = st.Opcode == ibv.OpRead || st.Opcode == ibv.OpFetchAdd
				p.probe = w.q.opt.Probe && st.Opcode == ibv.OpRead
				last := p.op.at == len(p.op.Steps)-1 && st.Len-p.op.done <= w.limits.Piece
				if p.read {
					w.reads++
				}
				p.every, p.forced = (w.limits.Depth-4)*6/7, last && !p.op.Quiet || p.read && w.reads == 3 || p.probe
				w.ops[p.op]++
			}
			w.q.Add(what, wire.Header{Seq: 7, Limit: 9})
			list = append(list, what)
			opReads = append(opReads, p)
		}
		if len(list) == 0 {
			break
		}
		w.post(list, opReads)
	}
	need := w.q.data.frames.Len() + len(w.q.data.notes)
	for i := range w.q.ops.list.Len() {
		if (*w.q.ops.list.At(i)).Noting {
			need++
		}
	}
	if n := w.q.Credits(); n != need {
		w.fail("%d credits are needed, want %d", n, need)
	}
	signaled := func(p posted) bool { return p.signaled }
	if !w.broken && len(w.device) >= w.limits.Depth-4 && !slices.ContainsFunc(w.device, signaled) {
		w.fail("%d work requests are under way and none is signaled", len(w.device))
	}
}

// post gives work requests to the device, and their frames to the peer.
func (w *world) post(list []What, of []posted) {
	w.t.Helper()
	wrs := w.q.Doorbell()
	if len(wrs) != len(list) {
		w.fail("%d work requests for %v", len(wrs), list)
	}
	for i := range wrs {
		wr, p := &wrs[i], of[i]
		if want := w.q.Posted - uint32(len(wrs)-i); wr.ID != uint64(want) {
			w.fail("work request %d has the ID %d", want, wr.ID)
		}
		w.silent++
		if p.signaled = wr.Flags&ibv.Signaled != 0; p.signaled != (p.forced || w.silent >= p.every) {
			w.fail("signaled %v of %v, the %d. without of %d, forced %v", p.signaled, list[i], w.silent, p.every,
				p.forced)
		}
		if p.signaled {
			w.silent = 0
		}
		if w.loose++; p.probe {
			w.loose = 0
		}
		for _, id := range p.held {
			w.inUse[id] = true
		}
		if what := list[i]; what != Window && what != Probe && what != Op { // a frame
			p.scratch = w.arrive(list[i], wr)
			p.was = bytes.Clone(p.scratch)
		}
		w.device = append(w.device, p)
		if len(w.device) > w.limits.Depth {
			w.fail("%d work requests are under way", len(w.device))
		}
	}
	for _, id := range w.q.Inlined() {
		w.giveBack(id)
	}
}

// arrive has the peer take a frame in. It returns the scratch memory that the device uses for it.
func (w *world) arrive(what What, wr *ibv.SendWR) (scratch []byte) {
	w.t.Helper()
	b := bytes.Clone(wr.Inline)
	for _, s := range wr.SGEs {
		id, at := int(s.Addr>>addrBits), int(s.Addr&(1<<addrBits-1))
		if s.LKey != uint32(id) {
			w.fail("memory of %d with the key %d", id, s.LKey)
		}
		mem := w.mem[id]
		if id == scratchID {
			mem, scratch = w.scratch, w.scratch[at:at+int(s.Length)]
		}
		b = append(b, mem[at:at+int(s.Length)]...)
	}
	if len(wr.Inline) > w.limits.Inline {
		w.fail("%d bytes inline", len(wr.Inline))
	}
	h := wire.ParseHeader(b)
	p := b[wire.HeaderLen:]
	if h.Seq != 7 || h.Limit != 9 || int(h.Length) != len(p) {
		w.fail("header %+v of %d bytes", h, len(p))
	}
	kinds := map[What]wire.Kind{Reset: wire.Reset, Lower: wire.Limit, Answer: wire.Limit, Data: wire.Data,
		Control: wire.Extend, Limit: wire.Limit, FIN: wire.FIN, Ping: wire.Ping}
	if h.Kind != kinds[what] {
		w.fail("a frame of kind %v for %d", h.Kind, what)
	}
	switch what {
	case FIN:
		if w.gotPart != nil {
			w.fail("FIN within a message")
		}
		w.fin = true
	case Control:
		w.heard = append(w.heard, wire.ParseNumber(p))
	case Data:
		if w.fin {
			w.fail("data after FIN")
		}
		w.message(&h, p)
	}
	return scratch
}

// message has the peer take a data frame in.
func (w *world) message(h *wire.Header, p []byte) {
	w.t.Helper()
	switch {
	case h.Flags&wire.FlagPacked != 0:
		if err := wire.CheckRecords(p, most); err != nil || w.gotPart != nil {
			w.fail("a shared frame of %d bytes: %v", len(p), err)
		}
		for len(p) > 0 {
			n, _, _ := wire.ParseRecord(p)
			w.got = append(w.got, p[wire.RecordLen:wire.RecordLen+n])
			p = p[wire.RecordSize(int(n)):]
		}
	case h.Flags&wire.FlagCancel != 0:
		if w.gotPart == nil {
			w.fail("CANCEL without a message")
		}
		w.gotPart = nil
	case h.Flags&wire.FlagMore != 0:
		w.gotPart = append(w.gotPart, p...)
	default:
		w.got = append(w.got, append(w.gotPart, p...))
		w.gotPart = nil
	}
}

// complete has the device complete up to its first signaled work request, or fail from one on.
func (w *world) complete(fails bool) {
	w.t.Helper()
	n := 1 + slices.IndexFunc(w.device, func(p posted) bool { return p.signaled })
	if fails {
		n = min(1, len(w.device))
	}
	if n == 0 {
		return
	}
	upTo := w.q.Posted - uint32(len(w.device)-n)
	ok := upTo
	if fails { // the rest is flushed
		w.broken = true
		ok, upTo, n = upTo-1, w.q.Posted, len(w.device)
	}
	failed := make(map[*operation]bool)
	if !w.q.opt.Probe {
		w.confirmed = ok
	}
	for i, p := range w.device[:n] {
		if first := w.q.Posted - uint32(len(w.device)); p.probe && !fails {
			w.confirmed = first + uint32(i) + 1
		}
		for _, id := range p.held {
			w.inUse[id] = false
		}
		if !bytes.Equal(p.scratch, p.was) {
			w.fail("a frame in scratch memory has changed while the device used it")
		}
		if p.op != nil {
			w.ops[p.op]--
			failed[p.op] = failed[p.op] || fails && i >= 0
		}
		if p.read {
			w.reads--
		}
	}
	w.device = slices.Delete(w.device, 0, n)
	for id, more := w.q.Release(upTo, ok); more; id, more = w.q.Release(upTo, ok) {
		w.giveBack(id)
	}
	w.finish(failed)
	if w.q.Failed != fails {
		w.fail("failed %v after a failure %v", w.q.Failed, fails)
	}
	if before := w.q.Acked; !fails {
		more := w.q.Confirm()
		if w.q.Acked != w.confirmed || more != (before != w.confirmed) {
			w.fail("%d are confirmed, %v after %d, want %d", w.q.Acked, more, before, w.confirmed)
		}
	}
	for _, wait := range w.waits {
		over := false
		select {
		case <-wait.C:
			over = true
		default:
		}
		if over != !wire.Before(w.q.Acked, wait.UpTo) {
			w.fail("a wait for %d is over %v with %d confirmed", wait.UpTo, over, w.q.Acked)
		}
	}
}

// finish takes the operations that have ended.
func (w *world) finish(failed map[*operation]bool) {
	w.t.Helper()
	for o := w.q.Finished(); o != nil; o = w.q.Finished() {
		if w.ops[o] != 0 || w.ended[o] || o.Failed != failed[o] && failed != nil {
			w.fail("operation %d has ended %v with %d under way, failed %v", o.Owner, w.ended[o], w.ops[o], o.Failed)
		}
		w.ended[o] = true
	}
}

// check compares what the queue knows with what the world knows.
func (w *world) check() {
	w.t.Helper()
	if int(w.q.UnderWay()) != len(w.device) {
		w.fail("%d under way, want %d", w.q.UnderWay(), len(w.device))
	}
	last := 1 + slices.Index(reversed(w.device), true)
	loose := len(w.device)
	if last > 0 {
		loose = last - 1
	}
	need := false
	for _, p := range w.device[len(w.device)-loose:] {
		need = need || len(p.held) > 0
	}
	due := w.q.due
	if asked := w.q.Ask(Memory); asked != need {
		w.fail("Ask(Memory) says %v, want %v", asked, need)
	}
	unsure := loose > 0
	if w.q.opt.Probe {
		unsure = w.loose > 0 && !w.q.IsDue(Probe)
	}
	if asked := w.q.Ask(All); asked != unsure {
		w.fail("Ask(All) says %v, want %v", asked, unsure)
	}
	w.q.due = due
	for _, wait := range w.waits { // something that completes after it is to come
		after := int(int32(wait.UpTo - 1 - (w.q.Posted - uint32(len(w.device)))))
		coming := w.q.IsDue(Ping) || w.q.IsDue(Probe) || after < 0
		for _, p := range w.device[min(max(after, 0), len(w.device)):] {
			coming = coming || p.signaled && (p.probe || !w.q.opt.Probe)
		}
		if !coming {
			w.fail("nobody asks for the completion of %d of %d", wait.UpTo, w.q.Posted)
		}
	}
}

func reversed(list []posted) (signaled []bool) {
	for _, p := range slices.Backward(list) {
		signaled = append(signaled, p.signaled)
	}
	return signaled
}

// act does something at random.
func (w *world) act() {
	w.t.Helper()
	q, rnd := &w.q, w.rnd
	switch n := rnd.IntN(40); {
	case n < 8 && !q.Ending():
		w.stage()
	case n < 10 && !q.Ending():
		p := w.payload(rnd.IntN(60))
		f := w.frame(p, 0, 0)
		if f.Alone = false; !q.Note(f) {
			w.fail("a note is refused")
		}
		if w.part != nil {
			w.notes = append(w.notes, p)
		} else {
			w.want = append(w.want, p)
		}
	case n == 10 && w.part != nil:
		w.takeBack()
	case n < 13:
		c := wire.NumberFrame(wire.Extend, 0, rnd.Uint32())
		w.told = append(w.told, wire.ParseNumber(c.Payload()))
		q.Tell(c)
	case n < 16:
		w.submit()
	case n == 16:
		q.SetDue([]What{Lower, Answer, Limit, Ping}[rnd.IntN(4)], true)
	case n == 17:
		if wait := q.Await(); wait != nil {
			w.waits = append(w.waits, wait)
		} else if len(w.device) > 0 {
			w.fail("nothing to wait for with %d under way", len(w.device))
		}
	case n == 18 && len(w.waits) > 0:
		q.Forget(w.waits[0])
		w.waits = w.waits[1:]
	case n == 19:
		q.Ask(Need(rnd.IntN(3)))
	case n == 20:
		q.Hold()
	case n == 21:
		q.LetGo()
	case n == 22:
		w.drop()
	case n < 26:
		w.credits += rnd.IntN(8)
	case n < 28:
		w.controlCredits += rnd.IntN(3)
	case n < 33:
		w.pump()
	default:
		w.complete(false)
	}
	w.check()
}

// stage stages a message, in part or the rest of it, or adds one to a frame.
func (w *world) stage() {
	w.t.Helper()
	q := &w.q
	p := w.payload(w.rnd.IntN(most/4) * w.rnd.IntN(2))
	if w.part == nil {
		frames, last := q.Staged(), Frame[int]{}
		if frames > 0 {
			last = *q.data.frames.Last()
		}
		used := int(last.N)
		if last.Flags&wire.FlagPacked == 0 {
			used = wire.RecordSize(used)
		}
		fits := last.Alone && used+wire.RecordSize(len(p)) <= most
		if packed := q.Pack(p, 0, 0, most); packed != fits {
			w.fail("Pack says %v, want %v: %+v", packed, fits, last)
		} else if packed {
			w.want = append(w.want, p)
			return
		}
	}
	if !q.MayStage() {
		return
	}
	flags := uint8(0)
	if w.rnd.IntN(4) == 0 {
		flags = wire.FlagMore
		p = append(p, 1)
	}
	q.Stage(w.frame(p, flags, 0))
	whole := append(slices.Clip(w.part), p...)
	if w.part, w.partIDs = nil, w.partIDs+1; flags != 0 {
		w.part = whole
		return
	}
	w.want = append(append(w.want, whole), w.notes...)
	w.notes, w.partIDs = nil, 0
}

// takeBack takes the message back that is staged in part.
func (w *world) takeBack() {
	n, staged := 0, w.q.Staged()
	for f, ok := w.q.TakeBack(); ok; f, ok = w.q.TakeBack() {
		w.giveBack(f.Held)
		n++
	}
	if n != min(staged, w.partIDs) {
		w.fail("%d frames were taken back, want %d", n, min(staged, w.partIDs))
	}
	w.want = append(w.want, w.notes...)
	w.notes, w.part, w.partIDs = nil, nil, 0
}

// submit queues an operation.
func (w *world) submit() {
	o := &operation{Owner: len(w.ops) + 1}
	w.ops[o] = 0
	if w.rnd.IntN(4) == 0 {
		op := []ibv.Opcode{ibv.OpBindMW, ibv.OpLocalInv}[w.rnd.IntN(2)]
		o.Steps, o.Quiet = []Step{{Opcode: op}}, op == ibv.OpBindMW
		w.q.Submit(Window, o)
		return
	}
	for range 1 + w.rnd.IntN(4) {
		st := Step{Opcode: []ibv.Opcode{ibv.OpRead, ibv.OpWrite, ibv.OpFetchAdd}[w.rnd.IntN(3)], Len: 8}
		if st.Opcode != ibv.OpFetchAdd {
			st.Len = w.rnd.IntN(4 << 20)
		}
		o.Steps = append(o.Steps, st)
	}
	if w.rnd.IntN(3) == 0 {
		o.Noting = true
		o.Note = w.frame(nil, wire.FlagImm, 0)
		o.Note.Alone = false
	}
	w.q.Submit(Op, o)
}

// drop gives an operation up that was not posted as a whole.
func (w *world) drop() {
	if w.q.ops.list.Len() == 0 {
		return
	}
	victim := *w.q.ops.list.Last()
	for _, o := range w.q.Remove(func(o *operation) bool { return o == victim }) {
		if o.Noting {
			w.giveBack(o.Note.Held)
		}
		if idle := w.q.Drop(o); idle != (w.ops[o] == 0) {
			w.fail("a dropped operation is idle %v with %d under way", idle, w.ops[o])
		} else if idle {
			w.ended[o] = true
		} else if !w.q.IsDue(Ping) && !w.q.IsDue(Probe) && (w.silent > 0 || w.q.opt.Probe && w.loose > 0) {
			w.fail("nobody asks for the completion of what a dropped operation has under way")
		}
	}
}

// end ends the connection: in order, or by an error.
func (w *world) end() {
	w.t.Helper()
	q := &w.q
	w.takeBack()
	ordered := w.rnd.IntN(2) == 0
	if ordered {
		q.DueEnd(FIN, 1)
		for range 10_000 {
			if w.pump(); len(w.device) == 0 && q.Idle() && q.Confirmed(FIN) {
				break
			}
			w.credits, w.controlCredits = 8, 3
			q.Ask(All)
			w.complete(false)
		}
		if !q.Confirmed(FIN) || !q.Idle() || len(w.device) > 0 {
			w.fail("nothing moves: due %b, %d under way", q.due, len(w.device))
		}
	} else {
		if w.rnd.IntN(2) == 0 {
			q.DueEnd(Reset, 1)
			w.pump()
		}
		if len(w.device) > 0 {
			w.complete(true)
		}
		for f, ok := q.DropStaged(); ok; f, ok = q.DropStaged() {
			if f.Held != 0 {
				w.giveBack(f.Held)
			}
		}
		for _, o := range q.Remove(func(*operation) bool { return true }) {
			if o.Noting {
				w.giveBack(o.Note.Held)
			}
			w.ended[o] = q.Drop(o)
		}
	}
	q.EndWaits()
	for _, wait := range w.waits {
		<-wait.C
	}
	w.atEnd(ordered)
}

// atEnd checks that everything was given back, and that the peer has what was staged.
func (w *world) atEnd(ordered bool) {
	w.t.Helper()
	for id := range w.mem {
		if w.back[id] != 1 {
			w.fail("%d was given back %d times", id, w.back[id])
		}
	}
	for o := range w.ops {
		if !w.ended[o] && (ordered || o.posted && !o.windowOp()) {
			w.fail("operation %d has not ended: %+v", o.Owner, o)
		}
	}
	got, want := filled(w.got), filled(w.want)
	if !ordered {
		n := min(len(got), len(want))
		got, want = got[:n], want[:n]
		w.told = w.told[:len(w.heard)]
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !bytes.Equal(got[i], want[i]) {
			w.fail("the peer has %d messages, want %d: the first %d are right", len(got), len(want), i)
		}
	}
	if !slices.Equal(w.heard, w.told) {
		w.fail("the peer has %d frames about leases, want %d", len(w.heard), len(w.told))
	}
}

// windowOp reports whether it is a bind or an invalidation, which nothing drops.
func (o *Operation[H, O]) windowOp() bool {
	return o.Steps[0].Len == 0 && o.Steps[0].Opcode > ibv.OpRead
}

// filled leaves out empty messages, among them the notes of operations, which nobody counts.
func filled(list [][]byte) (rest [][]byte) {
	for _, p := range list {
		if len(p) > 0 {
			rest = append(rest, p)
		}
	}
	return rest
}

// TestRandom does everything in every order, and compares with a model.
func TestRandom(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(400) {
		t.Run(fmt.Sprintf("%d-%d", seed, i), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, i))
			o := Options{Stage: 2 + rnd.IntN(3), Signal: []uint32{2, 8}[rnd.IntN(2)],
				Posts: []int{1, 4, 24}[rnd.IntN(3)], Probe: rnd.IntN(2) == 0}
			w := newWorld(t, rnd, o)
			u := &w.q.slots
			u.Posted = uint32(rnd.IntN(2)) * (1<<32 - 40) // numbers wrap
			u.Done, u.Acked, u.probed, u.asked, u.signaled = u.Posted, u.Posted, u.Posted, u.Posted, u.Posted
			w.confirmed = u.Posted
			for range 300 {
				w.act()
			}
			w.end()
		})
	}
}
