package blocks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// conn is a connection of the random test.
type conn struct {
	Account
	q       *queue // its own, or nil
	grown   int
	taken   uint64 // a receive that it has taken from the SRQ, and that has not completed; 0: none
	kind    Kind
	stopped bool     // no completion comes any more
	held    []*Block // by its application
}

// model drives a set at random, and knows where each block is.
type model struct {
	*world
	rnd     *rand.Rand
	own     bool
	srq     *queue
	shared  *Receiver
	conns   []*conn
	left    []*conn // have gone, and their applications still hold blocks
	senders []*sender
	ahead   []*Block // taken ahead, and not staged
	waiting []*Block // the same, and staged
	sent    []*Block
	stale   []uint64 // of queues that have gone
	pieces  int      // that applications hold
	heap    int      // of them on the heap
	purged  int      // receives that went with queue pairs, from the SRQ
	waits   map[*sender]bool

	refilled bool // by the last step
}

func newModel(rnd *rand.Rand, own bool) *model {
	world := newWorld(1 + rnd.IntN(8))
	c := world.config(int(world.budget.most / testSlab))
	c.Piece = testBlock/(3+rnd.IntN(4)) - Headroom // a block has 3 to 6 of them; 3 are too few
	world.Set = NewSet(c)
	m := &model{world: world, rnd: rnd, own: own, srq: newQueue(), waits: make(map[*sender]bool)}
	if _, err := m.Reserve(1); err != nil {
		panic(err)
	}
	if rnd.IntN(2) == 0 { // some of it is gone, for buffers
		m.budget.AddBuffers(testSlab * int64(rnd.IntN(3)))
	}
	if !own {
		m.shared = m.Shared(10+rnd.IntN(100), 4, m.srq.post)
	}
	for range 6 {
		m.senders = append(m.senders, newSender())
	}
	return m
}

func pick[T any](rnd *rand.Rand, list []T) T { return list[rnd.IntN(len(list))] }

func (m *model) step() {
	switch m.rnd.IntN(16) {
	case 0:
		m.begin()
	case 1:
		if len(m.conns) > 0 {
			c := pick(m.rnd, m.conns)
			n := 1 + m.rnd.IntN(4)
			if !c.stopped && c.Grow(n) {
				c.grown += n
			}
		}
	case 2:
		if len(m.conns) > 0 {
			c := pick(m.rnd, m.conns)
			if most := c.grown - max(len(c.held)-2, 0); most > 0 {
				n := 1 + m.rnd.IntN(most)
				c.Shrink(n)
				c.grown -= n
			}
		}
	case 3, 4, 5:
		m.arrive()
	case 6, 7:
		m.consume()
	case 8, 9:
		m.take()
	case 12, 13:
		m.takeAhead()
	case 14:
		m.stageAhead()
	case 15:
		if n := len(m.waiting); n > 0 { // credits come
			n = 1 + m.rnd.IntN(n)
			m.Caught(n)
			m.sent = append(m.sent, m.waiting[:n]...)
			m.waiting = m.waiting[n:]
		}
	case 10:
		if len(m.sent) > 0 {
			at := m.rnd.IntN(len(m.sent))
			m.Give(m.sent[at])
			m.sent = slices.Delete(m.sent, at, at+1)
		}
	case 11:
		switch m.rnd.IntN(4) {
		case 0:
			m.end()
		case 1:
			m.trim()
		default:
			m.Refill()
			m.refilled = true
		}
	}
}

func (m *model) begin() {
	c := new(conn)
	if !m.own {
		kind := m.Admit(2)
		if kind == None {
			return
		}
		c.kind = kind
		c.Begin(m.shared, kind) // a handshake
		if err := c.Promise(2); err != nil {
			if err != ErrFull {
				panic(err)
			}
			c.End(0)
			return
		}
	} else if c.q = newQueue(); !beginOwn(&c.Account, m.Set, 12, 2, 2, c.q.post) {
		c.Stop()
		c.q.gone = true
		m.stale = append(m.stale, c.q.ids...)
		c.Gone(false)
		c.End(0)
		return
	}
	m.conns = append(m.conns, c)
}

// receives is how many receives of its own a connection has that have not completed.
func (c *conn) receives() int {
	if c.taken != 0 {
		return len(c.q.ids) + 1
	}
	return len(c.q.ids)
}

// queue is where the receives of c come from.
func (m *model) queue(c *conn) *queue {
	if m.own {
		return c.q
	}
	return m.srq
}

// arrive has a frame of a connection come, in part or as a whole.
func (m *model) arrive() {
	if len(m.conns) == 0 {
		return
	}
	c := pick(m.rnd, m.conns)
	q := m.queue(c)
	if c.stopped || len(c.held) == 2+c.grown {
		return
	}
	if c.taken == 0 {
		if len(q.ids) == 0 {
			return
		}
		if c.taken = q.take(); m.rnd.IntN(3) == 0 {
			return // the rest comes later
		}
	}
	b := m.Arrived(c.taken)
	if b == nil {
		panic("a receive that is posted is not known")
	}
	c.taken = 0
	if c.kind == Compact {
		b = m.Copy(b, m.rnd.IntN(m.cfg.Piece))
		m.pieces++
		if b.parent == &onHeap {
			m.heap++
		}
	}
	c.held = append(c.held, b)
	if m.rnd.IntN(2) == 0 {
		m.Refill()
	}
}

func (m *model) consume() {
	list := append(slices.Clone(m.conns), m.left...)
	if len(list) == 0 {
		return
	}
	if c := pick(m.rnd, list); len(c.held) > 0 {
		b := c.held[0]
		c.held = c.held[1:]
		m.consumed(c, b)
	}
}

// consumed has the application of c give a frame back.
func (m *model) consumed(c *conn, b *Block) {
	if b.parent != nil {
		m.pieces--
	}
	if b.parent == &onHeap {
		m.heap--
	}
	m.Consumed(b)
	if c.stopped {
		c.Shrink(1)
	}
}

// trim gives slabs back. Without connections the device's queue goes first.
func (m *model) trim() {
	if m.own || len(m.conns)+len(m.ahead)+len(m.waiting) > 0 || m.rnd.IntN(2) == 0 {
		m.Trim(m.rnd.IntN(3), true)
		return
	}
	if !m.Withdraw(1, func() error { return nil }) {
		return
	}
	m.stale = append(m.stale, m.srq.ids...)
	m.srq.ids, m.purged = nil, 0
	m.Trim(1, false)
	m.Resume(m.srq.post)
}

func (m *model) take() {
	s := pick(m.rnd, m.senders)
	if m.waits[s] && m.rnd.IntN(8) == 0 {
		m.Leave(&s.Sender)
		delete(m.waits, s)
		return
	}
	b, err := m.Take(&s.Sender, 100)
	if err != nil {
		panic(err)
	}
	if b == nil {
		m.waits[s] = true
		return
	}
	delete(m.waits, s)
	m.sent = append(m.sent, b)
}

// takeAhead takes a block ahead of credits, which does not wait.
func (m *model) takeAhead() {
	s := pick(m.rnd, m.senders)
	b := m.TakeAhead(&s.Sender)
	delete(m.waits, s)
	if b == nil {
		return
	}
	if most := 16*(m.slabs-m.closed)*3/16 + int(m.lent.Load()); int(m.Set.ahead.Load()) > most {
		panic(fmt.Sprintf("%d blocks are taken ahead; want at most %d", m.Set.ahead.Load(), most))
	}
	m.ahead = append(m.ahead, b)
}

// stageAhead stages a frame in a block that was taken ahead, or gives the block back.
func (m *model) stageAhead() {
	if len(m.ahead) == 0 {
		return
	}
	b := m.ahead[0]
	m.ahead = m.ahead[1:]
	if m.rnd.IntN(4) == 0 {
		m.Give(b)
		return
	}
	if !b.Staged() || b.Staged() {
		panic("a block that was taken ahead does not know it, or twice")
	}
	m.waiting = append(m.waiting, b)
}

// end ends a connection: in order, or so that a receive which it has taken never completes.
func (m *model) end() {
	if len(m.conns) == 0 {
		return
	}
	at := m.rnd.IntN(len(m.conns))
	c := m.conns[at]
	m.conns = slices.Delete(m.conns, at, at+1)
	c.Stop()
	orderly := m.rnd.IntN(2) == 0
	if c.taken != 0 && orderly {
		m.Consumed(m.Arrived(c.taken))
		c.taken = 0
	}
	if m.own {
		if orderly {
			for len(c.q.ids) > 0 {
				m.Consumed(m.Arrived(c.q.take())) // flushed
			}
		}
		c.q.gone = true
		m.stale = append(m.stale, c.q.ids...)
		if c.taken != 0 {
			m.stale = append(m.stale, c.taken)
		}
	} else if c.taken != 0 {
		m.purged++
	}
	held := len(c.held)
	c.Shrink(max(2+c.grown-held, 0))
	c.Gone(orderly || m.rnd.IntN(2) == 0)
	c.End(held)
	c.taken, c.stopped = 0, true
	m.left = append(m.left, c)
	if len(m.stale) > 0 {
		if m.Arrived(pick(m.rnd, m.stale)) != nil {
			panic("a receive completes whose queue has gone")
		}
	}
}

// check compares the set with the model.
func (m *model) check() error {
	posted, held := len(m.srq.ids), 0
	for _, c := range m.conns {
		if c.q != nil {
			posted += len(c.q.ids)
		}
		if c.taken != 0 {
			posted++
		}
	}
	free, promised := m.heap-m.pieces, 0 // pieces
	for _, c := range append(slices.Clone(m.conns), m.left...) {
		held += len(c.held)
		if c.kind == Compact {
			promised += c.n
		}
	}
	for _, b := range m.compact.cut {
		free += m.Set.pieces()
		if n := int(b.Holders.Load()); n > m.Set.pieces() {
			return fmt.Errorf("%d pieces of a block are free", n)
		}
	}
	if x := &m.compact; x.promised != promised || promised > x.blocks*m.Set.pieces() || len(x.cut) > x.blocks ||
		len(x.free) != free {
		return fmt.Errorf("%d pieces are promised, want %d; of %d blocks %d are cut, with %d free pieces, want %d",
			x.promised, promised, x.blocks, len(x.cut), len(x.free), free)
	}
	c := m.Counts()
	slabs := m.slabs - m.closed
	want := Counts{Blocks: 16 * slabs, Promised: m.promised, Posted: posted + m.purged, Held: held,
		Ahead:   len(m.ahead) + len(m.waiting),
		Compact: m.compact.conns, Arrived: c.Arrived}
	want.Free = want.Blocks - want.Posted - want.Held + m.pieces - want.Ahead - len(m.sent) -
		len(m.compact.cut)
	if c != want {
		return fmt.Errorf("%+v; want %+v", c, want)
	}
	if left := c.Blocks - c.Posted - (c.Held - m.pieces) - c.Ahead - len(m.compact.cut); c.Blocks > 0 && left < 1 {
		return fmt.Errorf("%+v: no block is left for frames with credits", c)
	}
	seen := make(map[*Block]bool)
	for _, b := range m.free {
		if seen[b] || b.posted.Load() != 0 {
			return fmt.Errorf("block %d is free twice, or posted", b.index)
		}
		seen[b] = true
	}
	if used := m.budget.Used(); slabs > 1 && used > m.budget.most {
		return fmt.Errorf("%d bytes are used of %d", used, m.budget.most)
	}
	lent := int(m.lent.Load())
	if m.have+lent > max(m.Receivable(), 0) {
		return fmt.Errorf("%d blocks are posted or held and %d lent; want at most %d", m.have, lent, m.Receivable())
	}
	if want := max(c.Ahead-3*slabs, 0); lent != want || m.own && lent > 0 || lent > 6*slabs {
		return fmt.Errorf("%d blocks are lent; want %d, and at most %d", lent, want, 6*slabs)
	}
	if m.promised*testBlock != int(m.budget.promised) {
		return fmt.Errorf("%d blocks are promised, and %d bytes", m.promised, m.budget.promised)
	}
	if most := min(m.Receivable(), ForReceives(c.Blocks)); m.promised > max(most, 4) {
		return fmt.Errorf("%d blocks are promised; want at most %d", m.promised, most)
	}
	for _, c := range m.conns {
		if m.own && c.receives()+len(c.held) < 4+c.grown {
			return fmt.Errorf("a connection has %d receives of its own, and holds %d frames, want %d", c.receives(),
				len(c.held), 4+c.grown)
		}
	}
	if m.refilled && !m.own && m.purged == 0 { // each living connection has what it was promised
		least := 4
		for _, c := range m.conns {
			if c.kind == Whole {
				least += 2 + c.grown - len(c.held)
			}
		}
		if posted < least && (c.Free > 0 || posted+len(m.sent) < least) {
			return fmt.Errorf("%+v: want %d receives", c, least)
		}
	}
	m.refilled = false
	woken := 0
	for _, s := range m.senders {
		if s.woken {
			woken++
		}
	}
	if least := min(len(m.free), woken+m.Set.senders.n); woken < least || woken != m.woken {
		return fmt.Errorf("%d senders are woken, counted %d, for %d free blocks, and %d wait", woken, m.woken,
			len(m.free), m.Set.senders.n)
	}
	return nil
}

// settleAll ends all work that can end, and checks where the blocks are then.
func (m *model) settleAll() error {
	for _, c := range append(slices.Clone(m.conns), m.left...) {
		for _, b := range c.held {
			m.consumed(c, b)
		}
		c.held = nil
	}
	for range len(m.senders) { // with one block for all of them
		for _, s := range m.senders {
			if s.woken {
				b, err := m.Take(&s.Sender, 100)
				if err != nil {
					return err
				}
				if b != nil {
					delete(m.waits, s)
					m.sent = append(m.sent, b)
				}
			}
		}
		for _, b := range m.sent {
			m.Give(b)
		}
		m.sent = nil
		m.Poke()
		m.Refill()
		if err := m.check(); err != nil {
			return err
		}
	}
	if len(m.waits) > 0 {
		return fmt.Errorf("%d senders wait although nobody has a block", len(m.waits))
	}
	if m.own {
		for _, c := range m.conns {
			if n, least := c.receives(), 4+c.grown; n < least {
				return fmt.Errorf("a connection has %d receives of its own, want %d", n, least)
			}
		}
		return nil
	}
	want := 4
	whole, compact := 0, 0
	for _, c := range m.conns {
		if c.kind == Compact {
			compact++
			continue
		}
		whole++
		want += 2 + c.grown
	}
	x := &m.compact
	if m.heap != 0 {
		return fmt.Errorf("%d pieces are on the heap at the end", m.heap)
	}
	if x.whole != whole || x.conns != compact || compact == 0 && x.blocks+x.promised+x.recvs+len(x.cut) > 0 {
		return fmt.Errorf("%+v; want %d whole and %d compact connections", x, whole, compact)
	}
	want += x.recvs
	if m.promised != want+x.blocks+int(m.lent.Load()) {
		return fmt.Errorf("%d blocks are promised and %d lent; want %d promised", m.promised, m.lent.Load(), want)
	}
	// Of the receives that have gone with queue pairs, one for each connection may be under way.
	if least := want - m.purged - len(m.conns); len(m.srq.ids) < least && m.arrived.Load() > 0 {
		return fmt.Errorf("%d receives are there, want %d: %d are promised, %d have gone", len(m.srq.ids), least, want,
			m.purged)
	}
	return nil
}

// TestSet_Random does random things in random order.
func TestSet_Random(t *testing.T) {
	for i := range 100 {
		seed := rand.Uint64()
		for _, own := range []bool{false, true} {
			m := newModel(rand.New(rand.NewPCG(seed, 0)), own)
			fail := func(step int, err error) {
				if err != nil {
					t.Fatalf("run %d, seed %d, own %v, step %d: %v", i, seed, own, step, err)
				}
			}
			for step := range 400 {
				m.step()
				fail(step, m.check())
			}
			fail(400, m.settleAll())
		}
	}
}
