package sendq

import (
	"bytes"
	"slices"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

func newQueue(o Options) *Queue[int, string] {
	q := New[int, string](o)
	q.MayRead(2)
	q.PutScratch(make([]byte, ScratchLen), ibv.SGE{Addr: 1 << 20, LKey: 5})
	return &q
}

// block makes a frame of a message in a block that is full of others' data.
func block(id, most int, p string, flags uint8) Frame[int] {
	f := Frame[int]{Held: id, Mem: bytes.Repeat([]byte{0xa5}, headroom+most), N: int32(len(p)), Flags: flags,
		Aux: uint32(len(p)), Addr: uint64(id) << 16, LKey: 3}
	copy(f.Mem[headroom:], p)
	f.Alone = flags == 0
	return f
}

// post adds everything that may be sent, and returns what it was.
func post(q *Queue[int, string], g Gates) (list []What) {
	q.Begin(g)
	for what := q.Pick(); what != None; what = q.Pick() {
		q.Add(what, wire.Header{})
		list = append(list, what)
	}
	return list
}

var open = Gates{Data: 100, Control: 100}

// done completes the work requests before upTo, and returns what was held.
func done(q *Queue[int, string], upTo uint32) (back []int) {
	for h, ok := q.Release(upTo, upTo); ok; h, ok = q.Release(upTo, upTo) {
		back = append(back, h)
	}
	q.Confirm()
	return back
}

// TestOrder makes everything due, and posts it one after another.
func TestOrder(t *testing.T) {
	q := newQueue(Options{Stage: 4, Signal: 8, Posts: 24})
	for _, w := range []Step{{Opcode: ibv.OpRead, Len: 8}, {Opcode: ibv.OpWrite, Len: 8}} {
		q.Submit(Op, &Operation[int, string]{Steps: []Step{w}})
	}
	q.Submit(Window, &Operation[int, string]{Steps: []Step{{Opcode: ibv.OpBindMW}}, Quiet: true})
	for _, w := range []What{Ping, Limit, Answer, Lower} {
		q.SetDue(w, true)
	}
	q.DueEnd(FIN, 1)
	q.Tell(wire.NumberFrame(wire.Return, 1, 0))
	for i := range 3 {
		q.Stage(block(i+1, 100, "message", 0))
	}
	q.DueEnd(Reset, 1)
	want := []What{Reset, Lower, Answer, Window, Data, Control, Limit, Ping, Op, Data, Op, Data, FIN}
	if got := post(q, open); !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
	if !q.Idle() {
		t.Errorf("due after everything was posted: %b", q.due)
	}
}

// TestGates closes what data, frames about leases and operations wait for.
func TestGates(t *testing.T) {
	q := newQueue(Options{Stage: 4, Signal: 8, Posts: 64})
	q.Stage(block(1, 100, "message", 0))
	q.Tell(wire.NumberFrame(wire.Return, 1, 0))
	q.DueEnd(FIN, 0)
	if got := post(q, Gates{}); len(got) > 0 {
		t.Errorf("without credits %v was posted", got)
	}
	if got := post(q, Gates{Control: 1}); !slices.Equal(got, []What{Control}) {
		t.Errorf("with a credit for a frame about leases %v was posted", got)
	}
	if got := post(q, Gates{Data: 1}); !slices.Equal(got, []What{Data, FIN}) {
		t.Errorf("with a credit for data %v was posted, want the data and the FIN", got)
	}
	q = newQueue(Options{Stage: 100, Signal: 8, Posts: 64})
	for i := range Depth {
		q.Stage(block(i+1, 100, "message", 0))
	}
	q.Submit(Op, &Operation[int, string]{Steps: []Step{{Opcode: ibv.OpWrite, Len: 1 << 30}}})
	if got := post(q, open); len(got) != Depth-4 {
		t.Errorf("%d data frames and pieces of an operation are under way, want %d", len(got), Depth-4)
	}
	for range 5 {
		q.SetDue(Ping, true)
		post(q, open)
	}
	if q.UnderWay() != Depth || !q.IsDue(Ping) {
		t.Errorf("%d are under way, want %d and a PING that waits", q.UnderWay(), Depth)
	}
}

// TestEnd asks whether FINs are sent and confirmed.
func TestEnd(t *testing.T) {
	q := newQueue(Options{Stage: 4, Signal: 8, Posts: 4})
	state := func(ending, sent, confirmed bool) {
		t.Helper()
		if q.Ending() != ending || q.Sent(FIN) != sent || q.Confirmed(FIN) != confirmed {
			t.Errorf("ending %v, sent %v, confirmed %v; want %v, %v, %v", q.Ending(), q.Sent(FIN), q.Confirmed(FIN),
				ending, sent, confirmed)
		}
	}
	state(false, false, false)
	q.DueEnd(FIN, 0)
	state(true, false, false)
	if q.Note(block(1, 100, "note", 0)) {
		t.Error("a note behind a FIN is accepted")
	}
	post(q, open)
	state(true, true, false)
	done(q, q.Posted)
	state(true, true, true)
	q.DueEnd(FIN, wire.FINClosed)
	state(true, false, false)
	post(q, open)
	if h := wire.ParseHeader(q.Doorbell()[0].Inline); h.Kind != wire.FIN || h.Aux != wire.FINClosed {
		t.Errorf("the second FIN: %+v", h)
	}
	done(q, q.Posted)
	state(true, true, true)
}

// TestTakeBack gives messages up of which some frames were posted, or none. A FIN and notes follow the message.
func TestTakeBack(t *testing.T) {
	for posted := range 4 {
		q := newQueue(Options{Stage: 8, Signal: 8, Posts: 8})
		for i := range 3 {
			q.Stage(block(i+1, 100, "part of a message", wire.FlagMore))
		}
		q.Note(block(9, 100, "note", 0))
		q.DueEnd(FIN, 0)
		if got := post(q, Gates{Data: uint32(posted)}); len(got) != posted {
			t.Errorf("%v was posted, want %d data frames and no FIN", got, posted)
		}
		var back []int
		for f, ok := q.TakeBack(); ok; f, ok = q.TakeBack() {
			back = append(back, f.Held)
		}
		if want := []int{3, 2, 1}[:3-posted]; !slices.Equal(back, want) {
			t.Errorf("with %d posted %v was taken back, want %v", posted, back, want)
		}
		got := post(q, open)
		cancel := wire.ParseHeader(slices.Concat(q.Doorbell()[0].Inline, make([]byte, wire.HeaderLen))).Flags
		want := []What{Data, FIN}
		if posted > 0 {
			want = []What{Data, Data, FIN}
		}
		if !slices.Equal(got, want) || (posted > 0) != (cancel == wire.FlagCancel) {
			t.Errorf("with %d posted: %v followed, the first with flags %#x; want %v", posted, got, cancel, want)
		}
	}
}

// TestFill fills frames up with bytes.
func TestFill(t *testing.T) {
	q := newQueue(Options{Stage: 4, Signal: 8, Posts: 4})
	if q.Fill([]byte("abc"), 100) != 0 {
		t.Error("bytes were added to no frame")
	}
	q.Stage(block(1, 100, "hello", 0))
	if n := q.Fill([]byte(", all"), 8); n != 3 || string(q.data.frames.Last().Mem[headroom:][:8]) != "hello, a" {
		t.Errorf("%d bytes were added, want 3: %q", n, q.data.frames.Last().Mem[headroom:])
	}
	q.Stage(Frame[int]{Flags: wire.FlagCancel})
	if q.Fill([]byte("abc"), 100) != 0 {
		t.Error("bytes were added to a frame without memory")
	}
}

// TestPackNot stages what no message may be added to.
func TestPackNot(t *testing.T) {
	const most = 1024
	for name, do := range map[string]func(*Frame[int]){
		"the end of a long message":   func(f *Frame[int]) { f.Alone = false },
		"a full frame":                func(f *Frame[int]) { f.N = most },
		"no room for a second record": func(f *Frame[int]) { f.N = most - 3*wire.RecordLen + 1 },
	} {
		q := newQueue(Options{Stage: 4, Signal: 8, Posts: 4})
		f := block(1, most, "first", 0)
		do(&f)
		q.Stage(f)
		if q.Pack([]byte("next"), 0, 0, most) || q.data.frames.Last().N != f.N || q.data.frames.Last().Flags != 0 {
			t.Errorf("%s: a message was added", name)
		}
	}
	q := newQueue(Options{Stage: 4, Signal: 8, Posts: 4})
	if q.Pack([]byte("next"), 0, 0, most) {
		t.Error("with nothing staged: a message was added")
	}
	q.Stage(block(1, most, string(make([]byte, most-3*wire.RecordLen)), 0))
	if !q.Pack([]byte("next"), 0, 0, most) {
		t.Error("a message that fits was not added")
	}
}

// TestOperation posts reads, writes and an atomic of an operation, and completes them.
func TestOperation(t *testing.T) {
	q := newQueue(Options{Stage: 4, Signal: 8, Posts: 24})
	o := &Operation[int, string]{Owner: "owner", Steps: []Step{
		{Opcode: ibv.OpWrite, Addr: 1000, LKey: 7, Len: PieceMost + 5, Remote: ibv.RemoteAddr{Addr: 5000, RKey: 9}},
		{Opcode: ibv.OpFetchAdd, Remote: ibv.RemoteAddr{Addr: 64, RKey: 9}, Add: 3},
	}}
	q.Submit(Op, o)
	if o.Begun() {
		t.Error("an operation that waits has begun")
	}
	post(q, open)
	wrs := q.Doorbell()
	if len(wrs) != 3 || !o.Begun() {
		t.Fatalf("%d work requests, want 3", len(wrs))
	}
	if w := &wrs[1]; w.SGEs[0] != (ibv.SGE{Addr: 1000 + PieceMost, Length: 5, LKey: 7}) ||
		w.Remote.Addr != 5000+PieceMost || w.Flags != 0 {
		t.Errorf("the second piece: %+v", w)
	}
	if w := &wrs[2]; w.SGEs[0] != (ibv.SGE{Addr: 1<<20 + 2*64 + 56, Length: 8, LKey: 5}) || w.CompareAdd != 3 ||
		w.Flags&ibv.Signaled == 0 {
		t.Errorf("the atomic: %+v", w)
	}
	q.scratch.mem[2*64+56] = 42
	done(q, 2)
	if q.Finished() != nil {
		t.Error("the operation has finished before its last work request")
	}
	done(q, 3)
	if f := q.Finished(); f != o || o.Failed || o.Result != 42 && o.Result != 42<<56 {
		t.Errorf("finished %+v; want a result of 42", f)
	}
}

// TestLose ends a queue whose device may still use everything.
func TestLose(t *testing.T) {
	q := newQueue(Options{Stage: 4, Signal: 8, Posts: 24})
	o := &Operation[int, string]{Steps: []Step{{Opcode: ibv.OpRead, Len: 8}}}
	q.Stage(block(1, 1000, string(make([]byte, 100)), 0))
	q.Submit(Op, o)
	post(q, open)
	w := q.Await()
	if q.Lose(); q.UnderWay() != 0 || q.Finished() != o || !o.Failed || q.Acked != 0 {
		t.Errorf("%d under way, operation %+v, %d confirmed", q.UnderWay(), o, q.Acked)
	}
	q.EndWaits()
	<-w.C
}

// TestForget ends waits that nobody needs.
func TestForget(t *testing.T) {
	q := newQueue(Options{Stage: 4, Signal: 8, Posts: 24})
	if q.Await() != nil {
		t.Error("a wait for nothing")
	}
	q.Stage(block(1, 100, "message", 0))
	post(q, open)
	for range 1000 {
		q.Forget(q.Await())
	}
	if q.Waits() != 0 || !q.IsDue(Ping) {
		t.Errorf("%d waits are kept", q.Waits())
	}
}

// round stages, posts and completes 8 messages, and asks for more.
func round(q *Queue[int, string], f *Frame[int], p []byte) {
	for range 8 {
		q.Stage(*f)
		q.Pack(p, 0, 0, 1000)
		q.Begin(open)
		for what := q.Pick(); what != None; what = q.Pick() {
			q.Add(what, wire.Header{})
		}
	}
	upTo := q.Posted
	for _, ok := q.Release(upTo, upTo); ok; _, ok = q.Release(upTo, upTo) {
	}
	q.Confirm()
}

func TestAllocs(t *testing.T) {
	q := newQueue(Options{Stage: 4, Signal: 8, Posts: 4})
	f, p := block(1, 1000, "message", 0), make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() { round(q, &f, p) }); n != 0 {
		t.Errorf("%v allocations for 8 messages, want none", n)
	}
}

// BenchmarkSend stages, posts and completes messages of 64 bytes, each in its frame.
func BenchmarkSend(b *testing.B) {
	q := newQueue(Options{Stage: 4, Signal: 8, Posts: 4})
	f := block(1, 1000, string(make([]byte, 64)), 0)
	b.ReportAllocs()
	for b.Loop() {
		q.Stage(f)
		q.Begin(open)
		for what := q.Pick(); what != None; what = q.Pick() {
			q.Add(what, wire.Header{})
		}
		if q.Posted%8 == 0 {
			upTo := q.Posted
			for _, ok := q.Release(upTo, upTo); ok; _, ok = q.Release(upTo, upTo) {
			}
			q.Confirm()
		}
	}
}

// BenchmarkPack appends messages of 64 bytes to frames of 32 KiB.
func BenchmarkPack(b *testing.B) {
	q := newQueue(Options{Stage: 4, Signal: 8, Posts: 4})
	p, f := make([]byte, 64), block(1, 32<<10, "first", 0)
	q.Stage(f)
	b.ReportAllocs()
	for b.Loop() {
		if !q.Pack(p, 0, 0, 32<<10) {
			*q.data.frames.Last() = f
		}
	}
}

// TestProbe confirms only what a read follows.
func TestProbe(t *testing.T) {
	q := newQueue(Options{Stage: 4, Signal: 8, Posts: 24, Probe: true})
	at, own := ibv.RemoteAddr{Addr: 7, RKey: 8}, ibv.SGE{Addr: 9, Length: 1, LKey: 10}
	q.ProbeAt(at, own)
	q.Stage(block(1, 100, "message", 0))
	q.DueEnd(FIN, 0)
	if got := post(q, open); !slices.Equal(got, []What{Data, FIN, Probe}) {
		t.Fatalf("%v was posted, want a probe behind the FIN", got)
	}
	wr := q.Doorbell()[2]
	if wr.Opcode != ibv.OpRead || !slices.Equal(wr.SGEs, []ibv.SGE{own}) || wr.Remote != at ||
		wr.Flags&ibv.Signaled == 0 {
		t.Errorf("the probe is %+v, want a signaled read of %+v into %+v", wr, at, own)
	}
	for upTo := range uint32(3) {
		if done(q, upTo+1); q.Confirmed(FIN) != (upTo == 2) || !q.Failed != true {
			t.Errorf("with %d of 3 completed, the FIN is confirmed %v", upTo+1, q.Confirmed(FIN))
		}
	}
	if q.Ask(All) {
		t.Error("something is asked for after everything was confirmed")
	}
	for _, c := range []struct {
		last  ibv.Opcode
		steps int
	}{{ibv.OpWrite, 2}, {ibv.OpRead, 1}} {
		o := &Operation[int, string]{Steps: []Step{{Opcode: c.last, Len: 8}}}
		if q.Submit(Op, o); len(o.Steps) != c.steps {
			t.Errorf("%v has %d steps, want %d", c.last, len(o.Steps), c.steps)
		}
		post(q, open)
	}
	q.Release(q.Posted-2, q.Posted-2) // the write
	if q.Finished() != nil {
		t.Error("a write has finished that is not known to be in the peer's memory")
	}
	q.Release(q.Posted, q.Posted)
	if q.Finished() == nil {
		t.Error("the write has not finished")
	}
}
