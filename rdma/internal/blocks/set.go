package blocks

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Memory is registered memory, such as an *ibv.MR.
type Memory interface {
	Bytes() []byte
	Addr() uint64
	LKey() uint32
	Close() error
}

// Config describes a set.
type Config struct {
	Block  int   // bytes of a block, with its headroom
	Slab   int64 // bytes that are registered at a time
	Most   int64 // most bytes of slabs; the first slab is always there
	Piece  int   // most payload of a frame to a compact connection; 0: none is compact
	Budget *Budget
	Sets   int // that share the budget

	Register func(bytes int) (Memory, error)
	Trim     func() bool // frees memory of the budget that has no use, and reports whether there was some; may be nil
	Short    func()      // a sender has found no block; must not block, and is called with the set's lock
}

// ErrFull means that the memory is used up, or promised.
var ErrFull = errors.New("no memory is left to promise")

// Set has the blocks of a shard. It is safe for concurrent use.
type Set struct {
	PerSlab int         // blocks that are registered at a time
	Scarce  atomic.Bool // a sender has found no block since this was false
	cfg     Config
	all     atomic.Pointer[[]*Block] // by index; grows
	arrived atomic.Uint64            // receives that have completed
	ahead   atomic.Int64             // blocks of TakeAhead whose frames wait for credits
	lent    atomic.Int64             // of them beyond forAhead, which count as promised; changes under mu

	mu       sync.Mutex
	free     []*Block
	slabs    []Memory // nil: one that was trimmed
	live     int      // slabs that are registered
	stuck    []Memory // that could not be closed
	small    smalls
	senders  list[*Sender]   // that wait for a block, the longest first
	woken    int             // senders that were woken for a block, and neither took one nor left since
	needy    list[*Receiver] // that have fewer receives than they should
	dry      bool            // some of them because there was no block
	full     bool            // grow has failed since Poke
	shared   *Receiver       // nil if each connection has its own
	have     int             // receives that are posted or held, of all receivers
	claimed  int             // see Claim
	compact  compacts
	promised int    // blocks that receivers count in the budget
	posted   uint64 // receives ever
	purged   uint64 // of them given back because their queue had gone
	batch    [PostMost]*Block
}

// NewSet returns a set without blocks.
func NewSet(c Config) *Set {
	s := &Set{cfg: c, PerSlab: max(int(c.Slab)/c.Block, 1)}
	s.all.Store(new([]*Block))
	return s
}

// Take returns a free block for n bytes of payload; a small one of the sender's own is used when there is no other.
// Without either it returns nil: then w waits, until Take returns a block or Leave is called. The error is Register's.
func (s *Set) Take(w *Sender, n int) (*Block, error) {
	s.mu.Lock()
	defer s.unlock()
	s.serveShort()
	b, err := s.take()
	if b == nil && n <= SmallPayload && w.small != nil && !w.spent {
		b, err, w.spent = w.small, nil, true
	}
	switch {
	case b != nil:
		s.settle(w)
	case err == nil:
		w.place.value = w
		if s.settleWoken(w) {
			s.senders.pushFirst(&w.place) // it was its turn
		} else {
			s.senders.push(&w.place)
		}
		s.Scarce.Store(true)
		s.cfg.Short()
	}
	return b, err
}

// TakeAhead is Take for a frame without a credit. Its block stays taken for as long as the peer does not read, so it
// returns nil if only blocks for frames with credits are left. Then w does not wait.
func (s *Set) TakeAhead(w *Sender) (b *Block) {
	s.mu.Lock()
	defer s.unlock()
	s.settle(w)
	s.serveShort()
	if s.spare() {
		b, _ = s.take()
		b.ahead = true
		s.ahead.Add(1)
	}
	return b
}

// Caught is called when n blocks that were taken ahead no longer wait for credits.
func (s *Set) Caught(n int) {
	s.ahead.Add(-int64(n))
	if s.lent.Load() > 0 {
		s.mu.Lock()
		s.takeBack()
		s.serveAll()
		s.unlock()
	}
}

// spare reports whether a block may be taken ahead.
// Preconditions: s.mu is held.
func (s *Set) spare() bool {
	for {
		free := len(s.free) > s.woken+s.senders.n
		if free && int(s.ahead.Load()) < forAhead(s.count()) {
			return true
		}
		if !s.cfg.Budget.ample(s.cfg.Slab) || !s.grow() {
			return free && s.lend()
		}
	}
}

// lend lets another block be taken ahead that receives might have, and reports whether one is left. It counts as
// promised, so that neither receives nor buffers count on it. Half of the blocks for receives is for new connections.
// Without a shared receiver each of these needs a promise that is kept, so nothing is lent.
// Preconditions: s.mu is held.
func (s *Set) lend() bool {
	lent := int(s.lent.Load())
	most := ForReceives(s.count())
	if s.shared == nil || s.have+s.claimed+lent >= most || s.promised >= most/2 ||
		!s.cfg.Budget.Offer(int64(s.cfg.Block)) {
		return false
	}
	s.lent.Add(1)
	s.promised++
	return true
}

// takeBack undoes lend for blocks that are no longer ahead, or no longer too many.
// Preconditions: s.mu is held.
func (s *Set) takeBack() {
	if n := int(s.lent.Load()) - max(int(s.ahead.Load())-forAhead(s.count()), 0); n > 0 {
		s.lent.Add(-int64(n))
		s.promised -= n
		s.cfg.Budget.Promise(-int64(n) * int64(s.cfg.Block))
	}
}

// grow registers another slab, and reports whether it could. After a failure it tries again when Poke was called,
// because an attempt takes long.
// Preconditions: s.mu is held.
func (s *Set) grow() bool {
	if s.full {
		return false
	}
	ok, err := s.addSlab()
	s.full = !ok || err != nil
	return !s.full
}

// Leave is called when w no longer needs a block. If w was woken for one, another sender is.
func (s *Set) Leave(w *Sender) {
	s.mu.Lock()
	s.settle(w)
	s.unlock()
}

// settle ends the wait of w.
// Preconditions: s.mu is held.
func (s *Set) settle(w *Sender) {
	s.senders.remove(&w.place)
	s.settleWoken(w)
}

// settleWoken reports whether w was woken, and ends that.
// Preconditions: s.mu is held.
func (s *Set) settleWoken(w *Sender) bool {
	if !w.woken {
		return false
	}
	w.woken = false
	s.woken--
	return true
}

// Give returns a block that was taken. b may be nil.
func (s *Set) Give(b *Block) {
	if b == nil {
		return
	}
	s.mu.Lock()
	s.back(b)
	s.serveAll()
	s.unlock()
}

// GiveAll returns blocks that were taken. Some may be nil.
func (s *Set) GiveAll(list []*Block) {
	s.mu.Lock()
	for _, b := range list {
		if b != nil {
			s.back(b)
		}
	}
	s.serveAll()
	s.unlock()
}

// back frees a block that was taken.
// Preconditions: s.mu is held.
func (s *Set) back(b *Block) {
	if b.Staged() {
		s.ahead.Add(-1)
		s.takeBack()
	}
	if b.small {
		s.small.back(b)
		return
	}
	s.free = append(s.free, b)
}

// Poke looks for memory again, on behalf of senders and receivers: buffers may have given some back.
func (s *Set) Poke() {
	s.mu.Lock()
	defer s.unlock()
	s.full = false
	s.refillNeedy()
	s.feed(1) // one tries to register some
}

// Reserve registers memory until there are n blocks, and reports whether the budget allows that.
func (s *Set) Reserve(n int) (bool, error) {
	s.mu.Lock()
	defer s.unlock()
	for s.count() < n {
		if ok, err := s.addSlab(); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// count is how many blocks are registered.
// Preconditions: s.mu is held.
func (s *Set) count() int { return s.live * s.PerSlab }

// Slab returns the first slab, for tests.
func (s *Set) Slab() Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slabs[0]
}

// Counts are the counters of a set.
type Counts struct {
	Blocks int // registered
	Free   int
	Posted int // receives that have not completed
	Held   int // received, and not given back, pieces of blocks included
	Ahead  int // taken, for frames that wait for credits

	Promised int // that peers may fill or have filled, those that are lent, and claims
	Compact  int // connections that are compact

	Arrived uint64 // receives that have completed, ever
}

// Counts returns the counters. Blocks that belong to no other counter were taken.
func (s *Set) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	arrived := s.arrived.Load()
	c := Counts{Blocks: s.count(), Free: len(s.free), Posted: int(s.posted - s.purged - arrived),
		Ahead: int(s.ahead.Load()), Promised: s.promised, Compact: s.compact.conns, Arrived: arrived}
	c.Held = s.have - c.Posted + s.compact.held
	return c
}

// Close gives the memory back. Nothing uses it any more.
func (s *Set) Close() (errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range slices.Concat(s.slabs, s.stuck, s.small.mem) {
		if m == nil {
			continue
		}
		if err := m.Close(); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// take returns a free block, or nil if the memory is used up.
// Preconditions: s.mu is held.
func (s *Set) take() (*Block, error) {
	if len(s.free) == 0 {
		if ok, err := s.addSlab(); !ok || err != nil {
			return nil, err
		}
	}
	b := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return b, nil
}

// serveShort posts receives that are missing, if they need all that is free: then senders take none of it.
// Preconditions: s.mu is held.
func (s *Set) serveShort() {
	if r := s.shared; r != nil && len(s.free) > 0 && len(s.free) <= r.need() {
		s.serve(r)
	}
}

// serveAll is called when blocks were returned. Receives that lack one come first: they let the peers' work end.
// Preconditions: s.mu is held.
func (s *Set) serveAll() {
	if s.dry {
		s.refillNeedy()
	}
}

// unlock gives the lock back. What was done may have freed blocks, or registered more than it needed: senders that wait
// are woken for those.
func (s *Set) unlock() {
	s.feed(0)
	s.mu.Unlock()
}

// feed wakes senders, those that have waited longest first, until one is woken for each free block, and at least so
// many, or all are.
// Preconditions: s.mu is held.
func (s *Set) feed(least int) {
	for s.woken < max(len(s.free), least) && s.senders.n > 0 {
		w := s.senders.first.value
		s.senders.remove(&w.place)
		w.woken = true
		s.woken++
		w.Wake()
	}
}

// addSlab registers another slab, and reports whether the budget allows it.
// Preconditions: s.mu is held.
func (s *Set) addSlab() (bool, error) {
	m, n := s.cfg.Budget, s.cfg.Slab
	if s.live > 0 && int64(s.live+1)*n > s.cfg.Most || !s.budgeted(func(m *Budget) bool { return m.addBlocks(n) }) {
		return false, nil
	}
	mem, err := s.cfg.Register(int(n))
	if err != nil {
		m.dropBlocks(n)
		return false, err
	}
	slot := slices.Index(s.slabs, nil)
	if slot < 0 {
		slot = len(s.slabs)
		s.slabs = append(s.slabs, nil)
	}
	s.slabs[slot] = mem
	s.live++
	fresh := cut(mem, s.cfg.Block, s.PerSlab)
	for i, b := range fresh {
		b.index = uint32(slot*s.PerSlab + i)
	}
	all := slices.Clone(*s.all.Load())
	all = slices.Replace(all, slot*s.PerSlab, min((slot+1)*s.PerSlab, len(all)), fresh...)
	s.free = slices.Insert(s.free, 0, fresh...) // blocks that were used are taken first: they may be in a cache
	s.all.Store(&all)
	s.takeBack()
	return true, nil
}

// cut returns n blocks of size bytes of mem.
func cut(mem Memory, size, n int) []*Block {
	list, blocks := make([]*Block, n), make([]Block, n)
	for i := range list {
		at := i * size
		b := &blocks[i]
		b.Mem, b.Addr, b.LKey = mem.Bytes()[at:at+size:at+size], mem.Addr()+uint64(at), mem.LKey()
		list[i] = b
	}
	return list
}
