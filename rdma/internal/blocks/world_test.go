package blocks

import (
	"errors"
	"testing"
)

type memory struct {
	mem  []byte
	addr uint64
	w    *world
}

func (m *memory) Bytes() []byte { return m.mem }
func (m *memory) Addr() uint64  { return m.addr }
func (m *memory) LKey() uint32  { return 7 }
func (m *memory) Close() error {
	if m.w.stuck > 0 {
		m.w.stuck--
		return errTest
	}
	m.w.closed++
	return nil
}

const (
	testBlock = 1024
	testSlab  = 16 * testBlock
)

// world is a set with memory of the Go heap.
type world struct {
	*Set
	budget *Budget
	addr   uint64
	slabs  int
	closed int
	fails  error // of registering
	stuck  int   // so many slabs cannot be closed
	short  int
}

// newWorld makes a set of at most slabs slabs.
func newWorld(slabs int) *world {
	w := &world{addr: 1 << 30, budget: NewBudget(int64(slabs)*testSlab, testSlab)}
	w.Set = NewSet(w.config(slabs))
	return w
}

func (w *world) config(slabs int) Config {
	return Config{Block: testBlock, Slab: testSlab, Most: int64(slabs) * testSlab, Budget: w.budget, Sets: 1,
		Short: func() { w.short++ }, Register: func(n int) (Memory, error) {
			if w.fails != nil {
				return nil, w.fails
			}
			w.addr += 1 << 20
			w.slabs++
			return &memory{mem: make([]byte, n), addr: w.addr, w: w}, nil
		}}
}

// Shared is Set.Shared, with a queue.
func (w *world) Shared(depth, slack int, post Post) *Receiver {
	r := w.Set.Shared(depth, slack)
	w.Resume(post)
	return r
}

// begin begins a connection with n blocks.
func begin(t testing.TB, a *Account, r *Receiver, n int) {
	t.Helper()
	a.Begin(r, Whole)
	if err := a.Promise(n); err != nil {
		t.Fatalf("%d blocks: %v", n, err)
	}
}

// queue is a queue of receives of a device, which takes them in order.
type queue struct {
	ids  []uint64
	gone bool
	room int // for so many more, unless it is below 0
}

func (q *queue) post(list []*Block) int {
	if q.gone {
		return 0
	}
	n := 0
	for _, b := range list {
		if q.room == 0 {
			break
		}
		q.room--
		q.ids = append(q.ids, b.ID())
		n++
	}
	return n
}

// take takes the first receive.
func (q *queue) take() uint64 {
	id := q.ids[0]
	q.ids = q.ids[1:]
	return id
}

func newQueue() *queue { return &queue{room: -1} }

// sender counts its wake-ups.
type sender struct {
	Sender
	wakes int
}

func newSender() *sender {
	w := new(sender)
	w.Wake = func() { w.wakes++ }
	return w
}

func mustTake(t *testing.T, s *Set, w *sender) *Block {
	t.Helper()
	b, err := s.Take(&w.Sender, 100)
	if b == nil || err != nil {
		t.Fatalf("%v, %v; want a block", b, err)
	}
	return b
}

func mustWait(t *testing.T, s *Set, w *sender) {
	t.Helper()
	if b, err := s.Take(&w.Sender, 100); b != nil || err != nil {
		t.Fatalf("%v, %v; want neither a block nor an error", b, err)
	}
}

// beginOwn begins a connection with a queue of its own, and reports whether it has n blocks.
func beginOwn(a *Account, s *Set, depth, slack, n int, post Post) bool {
	a.BeginOwn(s, depth, slack, post)
	return a.Promise(n) == nil
}

var errTest = errors.New("no memory today")
