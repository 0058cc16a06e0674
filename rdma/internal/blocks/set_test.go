package blocks

import (
	"testing"
)

// tryTake is Take for callers that do not wait: without a block it returns nil.
func (s *Set) tryTake() (*Block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serveShort()
	return s.take()
}

// takeAll takes what there is.
func takeAll(t *testing.T, s *Set) (list []*Block) {
	t.Helper()
	for {
		b, err := s.tryTake()
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			return list
		}
		list = append(list, b)
	}
}

// TestSet_Memory looks at what is registered, and at errors of registering.
func TestSet_Memory(t *testing.T) {
	w := newWorld(3)
	w.fails = errTest
	if b, err := w.tryTake(); b != nil || err != errTest {
		t.Errorf("%v, %v; want the error of registering", b, err)
	}
	if _, err := w.Reserve(1); err != errTest || w.budget.Used() != 0 {
		t.Errorf("%v, and %d bytes are used; want the error of registering, and none", err, w.budget.Used())
	}
	w.fails = nil
	if ok, err := w.Reserve(17); !ok || err != nil || w.slabs != 2 || w.PerSlab != 16 {
		t.Errorf("%v, %v with %d slabs; want 2 for 17 blocks", ok, err, w.slabs)
	}
	if ok, err := w.Reserve(49); ok || err != nil || w.slabs != 3 {
		t.Errorf("%v, %v with %d slabs; want 3 that are too few for 49 blocks", ok, err, w.slabs)
	}
	seen := make(map[uint64]bool)
	list := takeAll(t, w.Set)
	for _, b := range list {
		if len(b.Mem) != testBlock || b.LKey != 7 || seen[b.Addr] || b.Addr%testBlock != 0 {
			t.Fatalf("a block of %d bytes with key %d at %#x, seen: %v", len(b.Mem), b.LKey, b.Addr, seen[b.Addr])
		}
		seen[b.Addr] = true
		if &b.Header()[0] != &b.Mem[Headroom-16] || &b.Payload()[0] != &b.Mem[Headroom] || len(b.Header()) != 16 ||
			b.HeaderAddr() != b.Addr+Headroom-16 || int(b.FrameLen()) != 16+testBlock-Headroom {
			t.Fatal("header and payload are not where they should be")
		}
	}
	if len(list) != 48 || w.Counts() != (Counts{Blocks: 48}) {
		t.Errorf("%d blocks, and %+v; want 48, and none free", len(list), w.Counts())
	}
	w.GiveAll(append(list, nil))
	w.Give(nil)
	if w.Counts() != (Counts{Blocks: 48, Free: 48}) {
		t.Errorf("%+v; want all free", w.Counts())
	}
	if errs := w.Close(); len(errs) != 0 || w.closed != 3 {
		t.Errorf("%v, %d slabs are closed; want 3", errs, w.closed)
	}
}

// TestSet_Trim takes memory from buffers that have no use for it.
func TestSet_Trim(t *testing.T) {
	w := newWorld(4)
	c := w.config(4)
	trimmed := 0
	c.Trim = func() bool {
		trimmed++
		w.budget.DropBuffers(testSlab)
		return true
	}
	w.Set = NewSet(c)
	if !w.budget.AddBuffers(4 * testSlab) {
		t.Fatal("no memory for buffers")
	}
	if _, err := w.Reserve(1); err != nil || trimmed != 0 {
		t.Errorf("%v, trimmed %d times; want the first slab at once", err, trimmed)
	}
	if ok, err := w.Reserve(33); ok || err != nil {
		t.Errorf("%v, %v; want three slabs more than there is room for", ok, err)
	}
	if trimmed == 0 {
		t.Error("nothing was trimmed")
	}
}

// TestSet_Order gives blocks to those who wait: the longest first, one wake for each block.
func TestSet_Order(t *testing.T) {
	w := newWorld(1)
	list := takeAll(t, w.Set)
	a, b, c := newSender(), newSender(), newSender()
	for _, x := range []*sender{a, b, c} {
		mustWait(t, w.Set, x)
	}
	mustWait(t, w.Set, a) // again, as it was woken for another reason: its place stays
	if !w.Scarce.Load() || w.short != 4 {
		t.Errorf("scarce: %v, reported %d times; want 4", w.Scarce.Load(), w.short)
	}
	w.Scarce.Store(false)
	if w.Scarce.Load() {
		t.Error("blocks are scarce after that was reset")
	}
	w.Give(list[0])
	if a.wakes != 1 || b.wakes != 0 {
		t.Fatalf("woken: a %d times, b %d; want a", a.wakes, b.wakes)
	}
	if x, _ := w.tryTake(); x != list[0] { // somebody is faster
		t.Fatal("the block was not free")
	}
	mustWait(t, w.Set, a)
	w.Give(list[0])
	if a.wakes != 2 || b.wakes != 0 {
		t.Fatalf("woken: a %d times, b %d; want a, since it was its turn", a.wakes, b.wakes)
	}
	w.Leave(&a.Sender) // its context has ended
	if b.wakes != 1 || c.wakes != 0 {
		t.Fatalf("woken: b %d times, c %d; want b", b.wakes, c.wakes)
	}
	mustTake(t, w.Set, b)
	if c.wakes != 0 {
		t.Error("c is woken, and there is no block")
	}
	w.Leave(&c.Sender)
	w.GiveAll(list[:2])
	if a.wakes != 2 || b.wakes != 1 || c.wakes != 0 {
		t.Errorf("woken: %d, %d and %d times, although none waits", a.wakes, b.wakes, c.wakes)
	}
	w.Leave(&c.Sender) // it does not wait: nothing happens
}

// TestSet_Registered wakes a sender when memory is registered for something else, which needs less of it.
func TestSet_Registered(t *testing.T) {
	for name, register := range map[string]func(w *world, a *Account) error{
		"Reserve": func(w *world, _ *Account) error { _, err := w.Reserve(17); return err },
		"Claim":   func(w *world, _ *Account) error { _, err := w.Claim(1); return err },
		"Promise": func(_ *world, a *Account) error { return a.Promise(1) },
		"Grow": func(_ *world, a *Account) error {
			if !a.Grow(1) {
				return ErrFull
			}
			return nil
		},
		"Refill": func(w *world, a *Account) error { w.shared.wants(1); w.Refill(); return nil },
		"Resume": func(w *world, a *Account) error { w.shared.wants(1); w.Resume(newQueue().post); return nil },
	} {
		w := newWorld(2)
		if !w.budget.AddBuffers(testSlab) {
			t.Fatal("there is no room for buffers")
		}
		var a Account
		a.Begin(w.Shared(100, 0, newQueue().post), Whole)
		takeAll(t, w.Set)
		s := newSender()
		mustWait(t, w.Set, s)
		w.budget.DropBuffers(testSlab)
		if err := register(w, &a); err != nil || w.slabs != 2 || s.wakes != 1 {
			t.Errorf("%s: %v, %d slabs, woken %d times; want 2 slabs, once", name, err, w.slabs, s.wakes)
		}
	}
}

// TestSet_Ahead takes blocks ahead of credits: at most three sixteenths and half of what receives might have, and none
// that a sender was woken for.
func TestSet_Ahead(t *testing.T) {
	w := newWorld(4)
	w.Shared(0, 0, newQueue().post)
	a, b := newSender(), newSender()
	list := []*Block{}
	for x := w.TakeAhead(&a.Sender); x != nil; x = w.TakeAhead(&a.Sender) {
		list = append(list, x)
	}
	if len(list) != 6+12 || w.slabs != 2 || w.Counts().Ahead != 18 || w.promised != 12 {
		t.Fatalf("%d of %d slabs, %+v, %d promised; want 6 and 12 of two slabs, half of the memory", len(list), w.slabs,
			w.Counts(), w.promised)
	}
	w.Give(list[0]) // was not staged
	if list[1].Staged(); w.Counts().Ahead != 17 {
		t.Errorf("%+v; want 17 ahead", w.Counts())
	}
	w.Caught(1)
	if w.Give(list[1]); w.Counts().Ahead != 16 || w.promised != 10 {
		t.Errorf("%+v, %d promised; want 16 ahead, and 10 of them", w.Counts(), w.promised)
	}
	rest := takeAll(t, w.Set)
	mustWait(t, w.Set, a)
	mustWait(t, w.Set, b)
	if w.Give(rest[0]); a.wakes != 1 {
		t.Fatal("a is not woken")
	}
	if x := w.TakeAhead(&newSender().Sender); x != nil {
		t.Error("a block was taken ahead for which a sender was woken")
	}
	if x := w.TakeAhead(&a.Sender); x != nil || b.wakes != 1 { // it no longer has a credit
		t.Errorf("%v; want none: b is the next, woken %d times", x, b.wakes)
	}
	mustTake(t, w.Set, b)
}

// TestSet_AheadReceives posts no receives of the blocks that are taken ahead, until they no longer are.
func TestSet_AheadReceives(t *testing.T) {
	w := newWorld(4)
	q := newQueue()
	r := w.Shared(64, 0, q.post)
	a := newSender()
	list := []*Block{}
	for x := w.TakeAhead(&a.Sender); x != nil; x = w.TakeAhead(&a.Sender) {
		x.Staged()
		list = append(list, x)
	}
	var c Account
	if c.Begin(r, Whole); c.Promise(43) != ErrFull || c.Promise(42) != nil || len(q.ids) != 48-6 {
		t.Errorf("%d receives, want 42: of four slabs 12 blocks may be ahead, and 6 more are", len(q.ids))
	}
	if len(takeAll(t, w.Set)) != 4 {
		t.Error("want a sixteenth to be left")
	}
	w.Caught(4)
	w.GiveAll(list[:4])
	if err := c.Promise(4); err != nil || len(q.ids) != 48-2 {
		t.Errorf("%d receives, want 46", len(q.ids))
	}
}

// TestSet_AheadPromised takes no blocks ahead that were promised, and none that buffers may have.
func TestSet_AheadPromised(t *testing.T) {
	for name, use := range map[string]func(w *world) bool{
		"promises": func(w *world) bool { return w.budget.Offer(20 * testBlock) },
		"buffers":  func(w *world) bool { return w.budget.AddBuffers(testSlab) && w.budget.Offer(8*testBlock) },
	} {
		w := newWorld(2)
		w.Shared(0, 0, newQueue().post)
		if !use(w) {
			t.Fatal("no memory")
		}
		n := 0
		for a := newSender(); w.TakeAhead(&a.Sender) != nil; n++ {
		}
		if left := w.Receivable()*testBlock - int(w.budget.promised); n != 3+4 || left != 0 {
			t.Errorf("%s: %d blocks, %d bytes left; want 3, and 4 that are not promised", name, n, left)
		}
		if w.budget.AddBuffers(testSlab) {
			t.Errorf("%s: buffers have what was promised", name)
		}
	}
}

// TestSet_Receivable keeps a quarter of the blocks for sending, also of blocks that do not fill a slab.
func TestSet_Receivable(t *testing.T) {
	for _, block := range []int{testBlock, testSlab/4 + 1, testSlab/2 + 1} {
		w := newWorld(64)
		c := w.config(64)
		c.Block = block
		w.Set = NewSet(c)
		q := newQueue()
		var a Account
		a.Begin(w.Shared(1<<20, 0, q.post), Whole)
		if most := w.Receivable(); a.Promise(most+1) != ErrFull || a.Promise(most) != nil {
			t.Errorf("%d bytes: want %d blocks to be promised, and no more", block, most)
		}
		if n := 64 * w.PerSlab; len(q.ids) != n/4*3 || w.Receivable() != n/4*3 || len(takeAll(t, w.Set)) != n/4 {
			t.Errorf("%d bytes: %d receives of %d blocks, want %d", block, len(q.ids), n, n/4*3)
		}
	}
}

// TestSet_AheadFails registers nothing more for blocks ahead after a failure, until Poke.
func TestSet_AheadFails(t *testing.T) {
	w := newWorld(8)
	a := newSender()
	w.fails = errTest
	for range 2 {
		if x := w.TakeAhead(&a.Sender); x != nil {
			t.Fatal("a block without memory")
		}
		w.fails = nil
	}
	if w.Poke(); w.TakeAhead(&a.Sender) == nil {
		t.Error("no block after Poke")
	}
}

// TestSet_Poke lets a sender have memory that buffers have given back.
func TestSet_Poke(t *testing.T) {
	w := newWorld(2)
	if _, err := w.Reserve(1); err != nil || !w.budget.AddBuffers(testSlab) {
		t.Fatal("no memory")
	}
	takeAll(t, w.Set)
	a, b := newSender(), newSender()
	mustWait(t, w.Set, a)
	mustWait(t, w.Set, b)
	w.budget.DropBuffers(testSlab)
	w.Poke()
	if a.wakes != 1 || b.wakes != 0 {
		t.Fatalf("woken: %d and %d times; want the first", a.wakes, b.wakes)
	}
	mustTake(t, w.Set, a)
	if b.wakes != 1 {
		t.Error("there is a slab of free blocks, and the second one is not woken")
	}
}

func TestList(t *testing.T) {
	var l list[int]
	var e [5]elem[int]
	for i := range e {
		e[i].value = i
		l.push(&e[i])
	}
	l.push(&e[0])      // is in the list
	l.remove(&e[2])    // 0 1 3 4
	l.remove(&e[2])    // is not
	l.remove(&e[4])    // 0 1 3
	l.remove(&e[0])    // 1 3
	l.pushFirst(&e[4]) // 4 1 3
	l.pushFirst(&e[3])
	var got []int
	for l.first != nil {
		got = append(got, l.first.value)
		l.remove(l.first)
	}
	if len(got) != 3 || got[0] != 4 || got[1] != 1 || got[2] != 3 || l.n != 0 || l.last != nil {
		t.Errorf("%v, then %d elements; want 4 1 3, then none", got, l.n)
	}
	l.pushFirst(&e[0])
	if l.first != &e[0] || l.last != &e[0] || l.n != 1 {
		t.Error("the first element is not the last")
	}
}

func BenchmarkTakeAhead(b *testing.B) {
	w := newWorld(4)
	s := newSender()
	b.ReportAllocs()
	for b.Loop() {
		x := w.TakeAhead(&s.Sender)
		x.Staged()
		w.Caught(1)
		w.Give(x)
	}
}

func BenchmarkTakeGive(b *testing.B) {
	w := newWorld(4)
	s := newSender()
	b.ReportAllocs()
	for b.Loop() {
		x, _ := w.Take(&s.Sender, 100)
		w.Give(x)
	}
}
