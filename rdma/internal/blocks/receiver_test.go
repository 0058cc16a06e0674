package blocks

import (
	"testing"
)

// arrive completes a receive.
func arrive(t *testing.T, w *world, id uint64) *Block {
	t.Helper()
	b := w.Arrived(id)
	if b == nil {
		t.Fatalf("receive %#x is not known", id)
	}
	return b
}

// TestReceiver_Shared posts what is promised.
func TestReceiver_Shared(t *testing.T) {
	w := newWorld(4) // 64 blocks, 48 of them for receiving
	q := newQueue()
	r := w.Shared(1000, 4, q.post)
	var a, b Account
	begin(t, &a, r, 2)
	b.Begin(r, Whole)
	if len(q.ids) != 6 {
		t.Errorf("%d receives; want 4 and 2: nothing is promised to b yet", len(q.ids))
	}
	if err := b.Promise(3); err != nil {
		t.Error(err)
	}
	if len(q.ids) != 9 {
		t.Errorf("%d receives; want 4, 2 and 3", len(q.ids))
	}
	if a.Grow(34) || !a.Grow(33) {
		t.Error("with 9 of 48 promised, and 6 for connections that begin, 33 are left")
	}
	if w.Refill(); len(q.ids) != 42 {
		t.Errorf("%d receives; want 42", len(q.ids))
	}
	id := q.take()
	got := arrive(t, w, id)
	if w.Arrived(id) != nil || w.Arrived(receiveID(0, 0)) != nil || w.Arrived(receiveID(1, 999)) != nil {
		t.Error("a receive has completed that was not posted")
	}
	if c := w.Counts(); c.Held != 1 || c.Posted != 41 || c.Arrived != 1 {
		t.Errorf("%+v; want one held, 41 posted", c)
	}
	w.Consumed(got)
	if len(q.ids) != 41 {
		t.Errorf("%d receives: one that is missing is posted with others", len(q.ids))
	}
	w.Consumed(arrive(t, w, q.take()))
	if len(q.ids) != 42 {
		t.Errorf("%d receives; want 42 again when half of the slack was missing", len(q.ids))
	}
	a.Shrink(33) // what is posted stays
	a.Stop()     // is not its own
	a.Gone(true)
	a.End(0)
	b.End(0)
	for len(q.ids) > 4 {
		w.Consumed(arrive(t, w, q.take()))
	}
	if w.Refill(); len(q.ids) != 4 {
		t.Errorf("%d receives; want the slack", len(q.ids))
	}
	w.Consumed(arrive(t, w, q.take()))
	if w.Refill(); len(q.ids) != 4 || w.promised != 4 || w.budget.promised != 4*testBlock {
		t.Errorf("%d receives, %d promised; want the slack", len(q.ids), w.promised)
	}
}

// TestReceiver_Purged has receives go with queue pairs that did not report them. Connections that live on have theirs.
func TestReceiver_Purged(t *testing.T) {
	w := newWorld(8) // 128 blocks, 96 of them for receiving
	q := newQueue()
	const slack, base = 4, 2
	r := w.Shared(1000, slack, q.post)
	var friend Account
	begin(t, &friend, r, base)
	for round := range 20 {
		var stranger Account
		begin(t, &stranger, r, base)
		for range 3 {
			q.take() // and it never completes
		}
		stranger.Gone(true) // so it seems
		stranger.End(0)
		if len(q.ids) == 0 {
			t.Fatalf("round %d: there is no receive for anybody", round)
		}
		w.Consumed(arrive(t, w, q.take())) // somebody else's frame
		w.Refill()
		if least := slack + base - 1; len(q.ids) < least {
			t.Fatalf("round %d: %d receives; want %d or more", round, len(q.ids), least)
		}
	}
	if len(q.ids) > slack+base {
		t.Errorf("%d receives; want %d at most", len(q.ids), slack+base)
	}
}

// TestReceiver_AllPurged has all receives go with a queue pair.
func TestReceiver_AllPurged(t *testing.T) {
	w := newWorld(8)
	q := newQueue()
	r := w.Shared(1000, 4, q.post)
	var friend, stranger Account
	begin(t, &friend, r, 2)
	begin(t, &stranger, r, 2)
	for range 3 {
		q.take()
	}
	held := arrive(t, w, q.take())
	last := q.ids
	q.ids = nil
	stranger.Gone(false)
	if len(q.ids) != 7 {
		t.Errorf("%d receives, want 7 in addition to the one that is held", len(q.ids))
	}
	stranger.End(0)
	w.Consumed(held)
	for _, id := range last { // those were there after all
		w.Consumed(arrive(t, w, id))
	}
	w.Refill()
	for range 20 {
		w.Consumed(arrive(t, w, q.take()))
		w.Refill()
	}
	if len(q.ids) != 5 || r.lost != 2 {
		t.Errorf("%d receives, %d are lost; want 5, and 2: of 3 one may be the friend's", len(q.ids), r.lost)
	}
}

// TestReceiver_Late completes receives that were taken for lost.
func TestReceiver_Late(t *testing.T) {
	w := newWorld(8)
	q := newQueue()
	r := w.Shared(1000, 4, q.post)
	var a Account
	begin(t, &a, r, 4)
	late := []uint64{q.take(), q.take(), q.take()}
	w.Consumed(arrive(t, w, q.take()))
	if w.Refill(); r.lost != 2 || len(q.ids) != 7 {
		t.Fatalf("%d are lost, %d there; want 2, as one may be under way, and 7", r.lost, len(q.ids))
	}
	for _, id := range late {
		w.Consumed(arrive(t, w, id))
	}
	if w.Refill(); r.lost != 0 || r.have != len(q.ids) {
		t.Errorf("%d are lost, %d counted, %d there; want none lost", r.lost, r.have, len(q.ids))
	}
	for range 20 {
		w.Consumed(arrive(t, w, q.take()))
		w.Refill()
	}
	if len(q.ids) != 8 || r.have != 8 {
		t.Errorf("%d receives, %d counted; want 8", len(q.ids), r.have)
	}
}

// TestReceiver_Own has connections with receive queues of their own.
func TestReceiver_Own(t *testing.T) {
	w := newWorld(4) // 64 blocks, 48 of them for receiving
	q, p := newQueue(), newQueue()
	var a, b Account
	if !beginOwn(&a, w.Set, 20, 2, 4, q.post) || len(q.ids) != 6 {
		t.Fatalf("%d receives; want 6", len(q.ids))
	}
	if a.Grow(15) || !a.Grow(14) {
		t.Error("a queue for 20 has room for 14 more than 6")
	}
	w.Refill()
	if beginOwn(&b, w.Set, 40, 2, 27, p.post) || !beginOwn(&b, w.Set, 40, 2, 26, p.post) {
		t.Error("with 20 of 48 promised, 28 are left")
	}
	if len(q.ids) != 20 || len(p.ids) != 28 {
		t.Fatalf("%d and %d receives; want 20 and 28", len(q.ids), len(p.ids))
	}
	a.Shrink(14) // what is posted is of no use to others until it completes
	if b.Grow(1) {
		t.Error("a block was promised twice")
	}
	if !a.Grow(5) {
		t.Error("what is still posted is not promised again")
	}
	a.Shrink(5)
	for range 3 {
		w.Consumed(arrive(t, w, q.take()))
	}
	if b.Grow(1) {
		t.Error("the last quarter is for connections that begin")
	}
	other := newQueue()
	var c, d Account
	if !beginOwn(&c, w.Set, 40, 0, 3, other.post) || beginOwn(&d, w.Set, 40, 0, 1, other.post) {
		t.Error("three blocks came back, for others")
	}
	if w.Refill(); len(q.ids) != 17 || len(p.ids) != 28 || len(other.ids) != 3 {
		t.Errorf("%d, %d and %d receives; want 17, 28 and 3", len(q.ids), len(p.ids), len(other.ids))
	}
	held := arrive(t, w, q.take())
	flushed := arrive(t, w, q.take())
	if !a.Stop() || a.Stop() {
		t.Error("want Stop to report whether it has stopped anything")
	}
	w.Consumed(flushed)
	if w.Refill(); len(q.ids) != 15 {
		t.Errorf("%d receives; want none posted after Stop", len(q.ids))
	}
	q.gone = true
	a.Gone(true)
	a.Gone(true)
	if c := w.Counts(); c.Posted != 31 || c.Held != 1 || c.Free != c.Blocks-32 {
		t.Errorf("%+v; want the 31 of the other, and one held", c)
	}
	if w.Arrived(q.take()) != nil {
		t.Error("a receive completes whose queue has gone")
	}
	a.End(0)
	w.Consumed(held)
	for _, x := range []*Account{&b, &c} {
		x.Stop()
		x.Gone(true)
		x.End(0)
	}
	d.Stop() // it has not begun
	if c := w.Counts(); c.Free != c.Blocks || w.promised != 0 || w.budget.promised != 0 || w.have != 0 {
		t.Errorf("%+v, %d promised; want all free", c, w.promised)
	}
}

// TestReceiver_Reposted reports a receive of a queue that has gone, after its block was posted to another.
func TestReceiver_Reposted(t *testing.T) {
	w := newWorld(1)
	q, p := newQueue(), newQueue()
	var a, b Account
	beginOwn(&a, w.Set, 12, 0, 12, q.post)
	a.Gone(true)
	a.End(0)
	beginOwn(&b, w.Set, 12, 0, 12, p.post)
	for _, id := range q.ids {
		if w.Arrived(id) != nil {
			t.Fatalf("receive %#x is taken for the one that was posted later", id)
		}
	}
	for _, id := range p.ids {
		arrive(t, w, id)
	}
}

// TestReceiver_Dry posts receives before senders get blocks, when there are none.
func TestReceiver_Dry(t *testing.T) {
	w := newWorld(1)
	q := newQueue()
	r := w.Shared(100, 2, q.post)
	list := takeAll(t, w.Set)
	x := newSender()
	mustWait(t, w.Set, x)
	var a Account
	begin(t, &a, r, 2) // senders give them back soon
	if len(q.ids) != 2 {
		t.Fatalf("%d receives, want 2: there is no block for more", len(q.ids))
	}
	w.Give(list[0])
	w.Give(list[1])
	if len(q.ids) != 4 || x.wakes != 0 {
		t.Errorf("%d receives, and a sender was woken %d times; want 4, and not at all", len(q.ids), x.wakes)
	}
	w.Give(list[2])
	if len(q.ids) != 4 || x.wakes != 1 {
		t.Errorf("%d receives, and a sender was woken %d times; want 4, and once", len(q.ids), x.wakes)
	}
}

// TestReceiver_PostFails has a queue that takes fewer receives than it should.
func TestReceiver_PostFails(t *testing.T) {
	w := newWorld(4)
	q := newQueue()
	q.room = 5
	r := w.Shared(100, 8, q.post)
	if c := w.Counts(); c.Posted != 5 || c.Free != 11 {
		t.Errorf("%+v; want 5 posted, and the others free", c)
	}
	w.Refill()
	q.room = -1
	w.Refill()
	if c := w.Counts(); c.Posted != 8 || len(q.ids) != 8 || r.have != 8 {
		t.Errorf("%+v; want 8 posted", c)
	}
	seen := make(map[uint64]bool)
	for _, id := range q.ids {
		if seen[id] {
			t.Errorf("receive %#x was posted twice", id)
		}
		seen[id] = true
		w.Consumed(arrive(t, w, id))
	}
}

// TestReceiver_SeqWraps numbers postings beyond the bits of an ID.
func TestReceiver_SeqWraps(t *testing.T) {
	w := newWorld(2)
	q := newQueue()
	r := w.Shared(100, 8, q.post)
	for range 8 {
		w.Consumed(arrive(t, w, q.take()))
	}
	w.Refill()
	w.posted += seqMask - 20
	r.front += seqMask - 20
	w.arrived.Add(seqMask - 20 + uint64(len(q.ids))) // those that are there are forgotten
	q.ids = nil
	r.have, w.have = 0, 0
	w.Refill()
	for range 100 {
		w.Consumed(arrive(t, w, q.take()))
		if w.Refill(); r.lost != 0 || len(q.ids) != 8 {
			t.Fatalf("%d are lost, %d receives are there; want 0, 8", r.lost, len(q.ids))
		}
	}
}

// TestReceiver_Allocs looks at what a frame costs.
func TestReceiver_Allocs(t *testing.T) {
	for _, kind := range []Kind{Whole, Compact} {
		if n := testing.AllocsPerRun(1000, frameCycle(kind)); n != 0 {
			t.Errorf("%v allocations for a frame of kind %d, want none", n, kind)
		}
	}
	w := newWorld(1)
	list := takeAll(t, w.Set)
	s := newSender()
	if n := testing.AllocsPerRun(1000, func() {
		_, _ = w.Take(&s.Sender, 100)
		w.Give(list[0])
		_, _ = w.Take(&s.Sender, 100)
	}); n != 0 {
		t.Errorf("%v allocations for a wait, want none", n)
	}
}

// frameCycle returns a function that receives a frame of 1 KiB for a connection.
func frameCycle(kind Kind) func() {
	w := newWorld(8)
	if kind == Compact {
		c := w.config(8)
		c.Piece, c.Block, c.Slab = 1<<10, 16<<10, 256<<10
		c.Most = 8 * c.Slab
		c.Budget = NewBudget(c.Most, c.Slab)
		w.Set = NewSet(c)
	}
	var ring [256]uint64
	head, tail := 0, 0
	r := w.Shared(100, 16, func(list []*Block) int {
		for _, b := range list {
			ring[tail%len(ring)] = b.ID()
			tail++
		}
		return len(list)
	})
	var a Account
	a.Begin(r, kind)
	_ = a.Promise(64)
	return func() {
		b := w.Arrived(ring[head%len(ring)])
		head++
		if kind == Compact {
			b = w.Copy(b, 1<<10)
		}
		w.Consumed(b)
		w.Refill()
	}
}

func BenchmarkReceive(b *testing.B) {
	for name, kind := range map[string]Kind{"whole": Whole, "compact": Compact} {
		b.Run(name, func(b *testing.B) {
			frame := frameCycle(kind)
			b.ReportAllocs()
			for b.Loop() {
				frame()
			}
		})
	}
}

// TestReceiver_Full promises no more than there is, and counts what the application holds of connections that have
// ended: the receives of others do not depend on that.
func TestReceiver_Full(t *testing.T) {
	w := newWorld(4) // 64 blocks, 48 of them for receiving
	q := newQueue()
	r := w.Shared(1000, 4, q.post)
	var list []*Account
	for {
		a := new(Account)
		a.Begin(r, Whole)
		if err := a.Promise(2); err != nil {
			if err != ErrFull {
				t.Fatal(err)
			}
			a.End(0)
			break
		}
		list = append(list, a)
	}
	if len(list) != 22 || w.Promisable(1) || w.slabs != 4 || len(q.ids) != 48 {
		t.Fatalf("%d connections, %d slabs, %d receives; want 22, 4, 48", len(list), w.slabs, len(q.ids))
	}
	// 20 of them end, and the application holds both of their frames.
	var held []*Block
	for range 40 {
		held = append(held, arrive(t, w, q.take()))
	}
	for _, a := range list[:20] {
		a.Gone(true)
		a.End(2)
	}
	if w.Refill(); len(q.ids) != 8 || w.Promisable(1) {
		t.Errorf("%d receives; want the 4 of two connections and the slack", len(q.ids))
	}
	for i, b := range held {
		w.Consumed(b)
		list[i/2].Shrink(1)
		if !w.Promisable(i + 1) {
			t.Fatalf("%d blocks are free, and may not be promised", i+1)
		}
	}
	if w.Refill(); len(q.ids) != 8 || w.promised != 8 {
		t.Errorf("%d receives, %d promised; want 8", len(q.ids), w.promised)
	}
}

// TestReceiver_Unregistered promises only what could be registered.
func TestReceiver_Unregistered(t *testing.T) {
	w := newWorld(4)
	r := w.Shared(1000, 4, newQueue().post)
	w.fails = errTest
	var a Account
	a.Begin(r, Whole)
	if err := a.Promise(9); err != errTest {
		t.Errorf("%v; want the error of registering", err)
	}
	if a.Grow(1) {
		t.Error("a window has grown although nothing can be registered")
	}
	if err := a.Promise(8); err != nil { // 16 blocks are there
		t.Error(err)
	}
}

// TestReceiver_Beginners leaves an eighth to connections that begin.
func TestReceiver_Beginners(t *testing.T) {
	w := newWorld(4)
	r := w.Shared(1000, 4, newQueue().post)
	var a, b Account
	begin(t, &a, r, 2)
	if a.Grow(37) || !a.Grow(36) {
		t.Error("with 6 of 48 promised, and 6 for those that begin, 36 are left")
	}
	begin(t, &b, r, 6)
	if b.Grow(1) || b.Promise(1) != ErrFull {
		t.Error("more was promised than there is")
	}
}

// TestSet_Withdraw closes the queue, and gives its memory back. Completions of it that come later are ignored.
func TestSet_Withdraw(t *testing.T) {
	w := newWorld(4)
	q, p := newQueue(), newQueue()
	r := w.Shared(1000, 4, q.post)
	var a Account
	begin(t, &a, r, 30)
	held := arrive(t, w, q.take())
	a.Gone(true)
	a.End(1)
	if w.Trim(1, false) {
		t.Error("slabs were freed that have receives")
	}
	if w.Withdraw(3, func() error { t.Error("closed"); return nil }) || w.Withdraw(1, func() error { return errTest }) {
		t.Error("withdrawn although it has as few slabs as it may keep, or the queue could not be closed")
	}
	if w.Refill(); r.ended {
		t.Error("nothing is posted any more")
	}
	if !w.Withdraw(1, func() error { q.gone = true; return nil }) || !w.Trim(1, false) {
		t.Error("nothing was freed")
	}
	if c := w.Counts(); c.Blocks != 16*2 && c.Blocks != 16 || c.Held != 1 || c.Posted != 0 || w.promised != 5 {
		t.Errorf("%+v; want the slab with the block that is held, one more at most, and 5 promised", c)
	}
	w.Resume(p.post)
	for _, id := range q.ids {
		if w.Arrived(id) != nil {
			t.Fatal("a receive of the old queue has completed")
		}
	}
	if len(p.ids) != 4 || w.promised != 5 {
		t.Errorf("%d receives, %d promised; want 4 and 5", len(p.ids), w.promised)
	}
	w.Consumed(held)
	a.Shrink(1)
	for range 30 {
		w.Consumed(arrive(t, w, p.take()))
		if w.Refill(); len(p.ids) != 4 || r.lost != 0 {
			t.Fatalf("%d receives, %d lost; want 4, 0", len(p.ids), r.lost)
		}
	}
	if w.budget.Used() != int64(w.live)*testSlab {
		t.Errorf("%d bytes are used, with %d slabs", w.budget.Used(), w.live)
	}
}

// TestSet_TrimFails keeps the memory that could not be deregistered, and closes it in the end.
func TestSet_TrimFails(t *testing.T) {
	w := newWorld(4)
	if ok, err := w.Reserve(64); !ok || err != nil {
		t.Fatal(err)
	}
	w.stuck = 1
	if !w.Trim(0, false) || w.budget.Used() != testSlab || w.Counts().Blocks != 0 || w.closed != 3 {
		t.Errorf("%d bytes are used, %d closed, %+v; want one slab to count", w.budget.Used(), w.closed, w.Counts())
	}
	if errs := w.Close(); errs != nil || w.closed != 4 {
		t.Errorf("%v, %d slabs are closed; want 4", errs, w.closed)
	}
}

// TestSet_Small gives each sender a small block for when there is no other.
func TestSet_Small(t *testing.T) {
	w := newWorld(1)
	list := []*sender{}
	for range smallSlab / smallBlock {
		x := newSender()
		if err := w.Equip(&x.Sender); err != nil {
			t.Fatal(err)
		}
		list = append(list, x)
	}
	blocks := takeAll(t, w.Set)
	a, b := list[0], list[1]
	if x, err := w.Take(&a.Sender, SmallPayload+1); x != nil || err != nil {
		t.Error("a small block for a long frame")
	}
	x := mustTake(t, w.Set, a)
	if len(x.Payload()) != SmallPayload || x.Staged() || w.Set.senders.n != 0 {
		t.Errorf("a block for %d bytes, %d senders wait; want %d, 0", len(x.Payload()), w.Set.senders.n, SmallPayload)
	}
	mustWait(t, w.Set, a) // one at a time
	y := mustTake(t, w.Set, b)
	if w.Give(x); a.wakes != 1 || mustTake(t, w.Set, a) != x {
		t.Error("the sender's own block came back, and it cannot go on")
	}
	w.Retire(&b.Sender) // while it is under way
	w.Retire(&b.Sender)
	c := newSender()
	w.Give(y)
	if err := w.Equip(&c.Sender); err != nil || mustTake(t, w.Set, c) != y {
		t.Errorf("%v; want the block of one that has gone", err)
	}
	if w.Trim(0, false) {
		t.Error("memory was freed that is in use")
	}
	w.Give(y)
	w.Give(x)
	w.GiveAll(blocks)
	for _, x := range append(list, c) {
		w.Retire(&x.Sender)
	}
	if w.Trim(1, false); w.budget.Used() != testSlab || w.closed != 1 {
		t.Errorf("%d bytes are used; want one slab of blocks", w.budget.Used())
	}
}

// TestSet_Compact admits connections with blocks until half of the receives are for them, then compact ones.
func TestSet_Compact(t *testing.T) {
	w := newWorld(8) // 128 blocks, 96 of them for receiving
	c := w.config(8)
	c.Piece = 128 - Headroom
	w.Set = NewSet(c)
	q := newQueue()
	r := w.Shared(1000, 4, q.post)
	var list []*Account
	kinds := make(map[Kind]int)
	for len(list) < 10_000 {
		kind := w.Admit(2)
		kinds[kind]++
		if kind == None {
			break
		}
		a := new(Account)
		a.Begin(r, kind)
		if err := a.Promise(2); err != nil {
			t.Fatalf("connection %d, %d: %v", len(list), kind, err)
		}
		list = append(list, a)
	}
	// 4 are slack, 48 of 24 connections, 3 for copies of 41 blocks with 8 pieces each.
	if kinds[Whole] != 24 || kinds[Compact] != 41*4 || w.Counts().Compact != 41*4 || w.promised != 96 {
		t.Fatalf("%v, %+v; want 24 with blocks, 164 compact", kinds, w.Counts())
	}
	last := list[len(list)-1]
	if last.Grow(1) || list[0].Grow(1) {
		t.Error("a window has grown")
	}
	senders := takeAll(t, w.Set)
	b := w.Arrived(q.take())
	copy(b.Header(), "header of a frame")
	copy(b.Payload(), "payload")
	p := w.Copy(b, 7)
	if p == b || string(p.Header()) != string(b.Header()) ||
		string(p.Payload()[:7]) != "payload" || p.parent != &onHeap {
		t.Errorf("%q %q; want the frame, on the heap", p.Header(), p.Payload())
	}
	w.GiveAll(senders)
	held := []*Block{p}
	for range 2*len(list) - 49 {
		w.Refill()
		p := w.Copy(arrive(t, w, q.take()), 7)
		if p.parent == &onHeap || len(p.Mem) != 128 || &p.Mem[0] == &held[len(held)-1].Mem[0] {
			t.Fatal("want a piece of a block of its own")
		}
		held = append(held, p)
	}
	if w.Refill(); len(q.ids) != 55 || w.Counts().Held != len(held) {
		t.Errorf("%d receives, %+v; want all 55, as nothing holds a block", len(q.ids), w.Counts())
	}
	for i, a := range list[24:] { // the application still holds one frame of each
		w.Consumed(held[i])
		a.Shrink(1)
		a.End(1)
	}
	if w.compact.promised != 164 || w.compact.conns != 0 {
		t.Errorf("%d pieces are promised, of %d connections; want 164, 0", w.compact.promised, w.compact.conns)
	}
	for i, a := range list[24:] {
		w.Consumed(held[164+i])
		a.Shrink(1)
	}
	if w.promised != 52 || w.claimed != 0 || w.Counts().Held != 0 || len(w.compact.cut)+len(w.compact.free) != 0 {
		t.Errorf("%d promised, %+v, %+v; want nothing of compact connections", w.promised, w.Counts(), w.compact)
	}
	if kind := w.Admit(2); kind != Compact {
		t.Errorf("%d, want a compact one", kind)
	}
	list[0].End(0)
	if kind := w.Admit(2); kind != Whole {
		t.Errorf("%d, want one with blocks in place of another", kind)
	}
	w.Dismiss(Whole)
}

// TestSet_Claim takes blocks for another use, and leaves what was promised.
func TestSet_Claim(t *testing.T) {
	w := newWorld(4) // 64 blocks, 48 of them for receiving
	q := newQueue()
	r := w.Shared(1000, 4, q.post)
	var a Account
	begin(t, &a, r, 30)
	list, err := w.Claim(14)
	if err != nil || len(list) != 14 || w.promised != 48 {
		t.Fatalf("%d blocks, %v, %d promised; want 14, and 48", len(list), err, w.promised)
	}
	if _, err := w.Claim(1); err != ErrFull || a.Promise(1) != ErrFull || a.Grow(1) {
		t.Errorf("%v; want no more to be promised", err)
	}
	w.Unclaim(list)
	all := takeAll(t, w.Set)
	if list, err := w.Claim(3); list != nil || err != ErrFull || w.promised != 34 {
		t.Errorf("%v, %v, %d promised; want none, as senders have the blocks", list, err, w.promised)
	}
	w.GiveAll(all)
	if c := w.Counts(); c.Free != 64-34 {
		t.Errorf("%+v; want all free that are not posted", c)
	}
}
