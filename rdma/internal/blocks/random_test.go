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
	taken   uint64   // a receive that it has taken from the SRQ, and that has not completed; 0: none
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
	purged  int      // receives that went with queue pairs, from the SRQ
	waits   map[*sender]bool
}

func newModel(rnd *rand.Rand, own bool) *model {
	m := &model{world: newWorld(1 + rnd.IntN(8)), rnd: rnd, own: own, srq: newQueue(), waits: make(map[*sender]bool)}
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
			if c := pick(m.rnd, m.conns); c.grown > 0 {
				n := 1 + m.rnd.IntN(c.grown)
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
		if m.rnd.IntN(3) == 0 {
			m.end()
		} else {
			m.Refill()
		}
	}
}

func (m *model) begin() {
	c := new(conn)
	if !m.own {
		c.Begin(m.shared, 0) // a handshake
		c.Promise(2)
	} else if c.q = newQueue(); !beginOwn(&c.Account, m.Set, 12, 2, 2, c.q.post) {
		c.Stop()
		c.q.gone = true
		m.stale = append(m.stale, c.q.ids...)
		c.Gone(false)
		c.End()
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
	if c.stopped {
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
		m.Consumed(b)
	}
}

func (m *model) take() {
	s := pick(m.rnd, m.senders)
	if m.waits[s] && m.rnd.IntN(8) == 0 {
		m.Leave(&s.Sender)
		delete(m.waits, s)
		return
	}
	b, err := m.Take(&s.Sender)
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
	if most := 16*m.slabs*3/16 + int(m.lent.Load()); int(m.Set.ahead.Load()) > most {
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
	c.Shrink(c.grown)
	c.Gone(orderly || m.rnd.IntN(2) == 0)
	c.End()
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
	for _, c := range append(slices.Clone(m.conns), m.left...) {
		held += len(c.held)
	}
	c := m.Counts()
	want := Counts{Blocks: 16 * m.slabs, Posted: posted + m.purged, Held: held, Ahead: len(m.ahead) + len(m.waiting),
		Arrived: c.Arrived}
	want.Free = want.Blocks - want.Posted - want.Held - want.Ahead - len(m.sent)
	if c != want {
		return fmt.Errorf("%+v; want %+v", c, want)
	}
	if left := c.Blocks - c.Posted - c.Held - c.Ahead; c.Blocks > 0 && left < 1 {
		return fmt.Errorf("%+v: no block is left for frames with credits", c)
	}
	seen := make(map[*Block]bool)
	for _, b := range m.free {
		if seen[b] || b.posted.Load() != 0 {
			return fmt.Errorf("block %d is free twice, or posted", b.index)
		}
		seen[b] = true
	}
	if used := m.budget.Used(); m.slabs > 1 && used > m.budget.most {
		return fmt.Errorf("%d bytes are used of %d", used, m.budget.most)
	}
	lent := int(m.lent.Load())
	if m.have+lent > max(m.Receivable(), 0) {
		return fmt.Errorf("%d blocks are posted or held and %d lent; want at most %d", m.have, lent, m.Receivable())
	}
	if want := max(c.Ahead-3*m.slabs, 0); lent != want || m.own && lent > 0 || lent > 6*m.slabs {
		return fmt.Errorf("%d blocks are lent; want %d, and at most %d", lent, want, 6*m.slabs)
	}
	if m.promised*testBlock != int(m.budget.promised) {
		return fmt.Errorf("%d blocks are promised, and %d bytes", m.promised, m.budget.promised)
	}
	if m.own && m.promised > m.Receivable() {
		return fmt.Errorf("%d blocks are promised; want at most %d", m.promised, m.Receivable())
	}
	for _, c := range m.conns {
		if m.own && c.receives()+len(c.held) < 4+c.grown {
			return fmt.Errorf("a connection has %d receives of its own, and holds %d frames, want %d", c.receives(),
				len(c.held), 4+c.grown)
		}
	}
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
			m.Consumed(b)
		}
		c.held = nil
	}
	for range len(m.senders) { // with one block for all of them
		for _, s := range m.senders {
			if s.woken {
				b, err := m.Take(&s.Sender)
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
	for _, c := range m.conns {
		want += 2 + c.grown
	}
	least := min(want-len(m.conns), min(m.shared.depth, m.Receivable()-int(m.lent.Load()))-m.purged-len(m.conns))
	if len(m.srq.ids) < least && m.arrived.Load() > 0 {
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
