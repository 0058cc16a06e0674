package blocks

// Post posts receives of these blocks, in this order, and returns how many it could. Each has the ID Block.ID.
// It is called with the lock of the set.
type Post func(list []*Block) int

// PostMost is the most receives that are posted at a time.
const PostMost = 64

// Receiver is a queue of receives: an SRQ, which connections share, or the receive queue of one of them. It has as many
// receives as were promised to peers and some more, posted or held by the application. Its fields are under the lock of
// its set, except those of the goroutine that polls.
type Receiver struct {
	set   *Set
	post  Post
	depth int  // most receives
	slack int  // for frames that no promise covers
	own   bool // of one connection: what is posted too much is of no use to others

	place    elem[*Receiver] // in Set.needy
	want     int             // receives that are to be posted or held
	have     int             // that are
	lost     int             // of them, so many are not counted on: they have gone, or may have
	doubt    uint64          // postings before this one may have gone
	living   int             // connections
	promised int             // blocks that count in the budget
	ended    bool            // nothing more is posted
	slacks   bool            // want has the slack; of a shared one

	// Of the goroutine that polls:
	front uint64 // postings of the set up to the latest that has completed
}

// Shared returns the set's receiver for any number of connections: an SRQ with room for depth receives. From Resume on
// it posts slack of them for frames that no promise covers.
func (s *Set) Shared(depth, slack int) *Receiver {
	s.mu.Lock()
	defer s.unlock()
	s.shared = &Receiver{set: s, depth: depth, slack: slack, ended: true}
	return s.shared
}

// Account counts the blocks that a connection was promised: the set has them, registered, and neither senders nor
// buffers take them. Of a compact connection it counts pieces. Before Begin nothing else has an effect.
type Account struct {
	r    *Receiver
	n    int
	kind Kind
}

// Begin begins a connection, which shares r with others, of the kind that Admit has returned. It has no blocks before
// Promise.
func (a *Account) Begin(r *Receiver, kind Kind) {
	r.set.mu.Lock()
	defer r.set.unlock()
	a.r, a.kind = r, kind
	r.living++
	if kind == Compact {
		r.set.beginCompact(r)
	}
}

// Promise promises the first n blocks to a connection, and posts receives. A queue of the connection's own also has
// slack receives, for frames that no promise covers. The error is ErrFull, or Register's.
func (a *Account) Promise(n int) error {
	s := a.r.set
	s.mu.Lock()
	defer s.unlock()
	if a.r.own {
		n += a.r.slack
	}
	if err := a.offer(n, false); err != nil {
		return err
	}
	if !a.posted(n) {
		return ErrFull
	}
	return nil
}

// Promised reports whether something is promised.
func (a *Account) Promised() bool {
	a.r.set.mu.Lock()
	defer a.r.set.unlock()
	return a.n > 0
}

// offer promises n more.
// Preconditions: the lock of the set is held.
func (a *Account) offer(n int, grow bool) error {
	if a.kind == Compact {
		return a.r.set.offerPieces(n, grow)
	}
	return a.r.offer(n, grow)
}

// wants changes what is promised by n, which is not above 0.
// Preconditions: the lock of the set is held.
func (a *Account) wants(n int) {
	a.n += n
	if a.kind == Compact {
		a.r.set.dropPieces(-n)
	} else {
		a.r.wants(n)
	}
}

// posted posts receives for n blocks that offer has promised. If it cannot post all to a queue of the connection's own,
// because others have taken blocks meanwhile, it takes the promise back and returns false.
// Preconditions: the lock of the set is held.
func (a *Account) posted(n int) bool {
	a.n += n
	if a.r.set.serve(a.r); a.r.own && a.r.need() > 0 {
		a.wants(-n)
		return false
	}
	return true
}

// BeginOwn begins a connection with a receive queue of its own with room for depth receives. It has none before
// Promise, and then slack more than were promised.
func (a *Account) BeginOwn(s *Set, depth, slack int, post Post) {
	a.r = &Receiver{set: s, post: post, depth: depth, slack: slack, own: true, living: 1}
}

// Grow promises n blocks more, posts receives, and reports whether there are so many. Those of a queue of the
// connection's own are then posted.
func (a *Account) Grow(n int) bool {
	s := a.r.set
	s.mu.Lock()
	defer s.unlock()
	return !a.r.ended && !s.full && a.offer(n, true) == nil && a.posted(n) // the peer may be told at once
}

// Shrink undoes Grow. Receives that are posted stay so, in a queue of the connection's own until they complete.
func (a *Account) Shrink(n int) {
	s := a.r.set
	s.mu.Lock()
	a.wants(-min(n, a.n)) // it may have ended before Promise
	s.unlock()
}

// Stop ends posting to a queue of the connection's own, because its receives are flushed or about to be. It reports
// whether there was one.
func (a *Account) Stop() bool {
	if a.r == nil || !a.r.own {
		return false
	}
	a.r.set.mu.Lock()
	defer a.r.set.unlock()
	was := !a.r.ended
	a.r.stop()
	return was
}

// Gone is called when the queue pair of the connection no longer exists; drained reports whether all its completions
// were seen. A queue of its own has gone with it: what it had and did not report is given back. Receives from an SRQ
// that were not reported are not known. Until later ones complete, others are posted for all that may be among them.
func (a *Account) Gone(drained bool) {
	s := a.r.set
	s.mu.Lock()
	defer s.unlock()
	if !a.r.own {
		if !drained {
			a.r.doubt = s.posted
			a.r.lost = int(s.posted - s.purged - s.arrived.Load())
			s.serve(a.r)
		}
		return
	}
	a.r.purge()
	s.serveAll()
}

// Withdraw takes back all receives of the shared receiver, which no connection has: those that are posted keep their
// slabs. It does so if there are more than keep slabs and shut, which closes the queue of the device, returns nil, and
// reports whether it has. Resume follows.
func (s *Set) Withdraw(keep int, shut func() error) bool {
	if !s.mu.TryLock() { // the caller may have the lock of another set
		return false
	}
	defer s.unlock()
	r := s.shared
	if s.live <= keep {
		return false
	}
	r.stop()
	if shut() != nil {
		r.ended = false
		return false
	}
	r.purge()
	if keep == 0 && r.slacks {
		r.slacks = false
		r.wants(-r.slack)
	}
	r.front, r.doubt, r.lost = s.posted, 0, 0
	return true
}

// Resume posts receives to a new queue.
func (s *Set) Resume(post Post) {
	s.mu.Lock()
	r := s.shared
	r.post, r.ended = post, false
	if !r.slacks {
		r.slacks = true
		r.wants(r.slack)
	}
	s.serve(r)
	s.unlock()
}

// purge takes back what is posted and will not be reported, and posts nothing more.
// Preconditions: s.mu is held.
func (r *Receiver) purge() {
	r.stop()
	for _, b := range *r.set.all.Load() {
		if b == nil || b.from != r {
			continue
		}
		if id := b.posted.Load(); id != 0 && b.posted.CompareAndSwap(id, 0) {
			r.set.purged++
			r.back(b)
		}
	}
}

// End takes the promises back, except of the blocks that the application still holds: each of those needs a Shrink when
// it is consumed.
func (a *Account) End(held int) {
	s := a.r.set
	s.mu.Lock()
	a.r.living--
	a.wants(-max(a.n-held, 0))
	if s.dismiss(a.kind); a.kind == Compact {
		s.endCompact(a.r)
	}
	s.unlock()
}

// Arrived returns the block of a receive that has completed; it is then held, until Consumed. It returns nil if there
// is no such receive, or not any more. One goroutine at a time calls it.
func (s *Set) Arrived(id uint64) *Block {
	all := *s.all.Load()
	index := uint32(id)
	if int(index) >= len(all) {
		return nil
	}
	b := all[index]
	if b == nil || !b.posted.CompareAndSwap(id, 0) {
		return nil
	}
	s.arrived.Add(1)
	r := b.from
	if d := after(uint32(id>>seqAt)&seqMask, uint32(r.front-1)&seqMask); d > 0 {
		r.front += uint64(d)
	}
	return b
}

// Consumed returns a block that was received.
func (s *Set) Consumed(b *Block) {
	s.mu.Lock()
	if b.parent != nil {
		s.backPiece(b)
		s.unlock()
		return
	}
	r := b.from
	r.back(b)
	if r.own || r.need() >= max(r.slack/2, 1) { // else the goroutine that polls posts it with others
		s.serve(r)
	}
	s.serveAll()
	s.unlock()
}

// Refill posts the receives that are missing. The goroutine that polls calls it after a batch of completions.
func (s *Set) Refill() {
	s.mu.Lock()
	if r := s.shared; r != nil {
		// A device takes receives from an SRQ in the order in which they were posted, and a connection has taken at
		// most one that has not completed. If more were passed over, they have gone with queue pairs that no longer
		// exist.
		arrived := s.arrived.Load() + s.purged
		if r.lost = max(int(r.front-arrived)-r.living, 0); r.front < r.doubt {
			r.lost = int(r.doubt - arrived)
		}
		r.need()
	}
	if s.needy.n > 0 {
		s.refillNeedy()
	}
	s.unlock()
}

// refillNeedy posts what is missing, for those first that have waited longest, until there are no blocks.
// Preconditions: s.mu is held.
func (s *Set) refillNeedy() {
	s.dry = false
	for s.needy.first != nil && !s.dry {
		s.serve(s.needy.first.value)
	}
}

// serve posts what r lacks. If there are no blocks, s is dry.
// Preconditions: s.mu is held.
func (s *Set) serve(r *Receiver) {
	for {
		n := min(r.need(), PostMost, r.depth-r.have, s.Receivable()-s.have-s.claimed)
		list := s.batch[:0]
		for len(list) < n && s.mayReceive(s.have+len(list)+1) {
			b, err := s.take()
			if b == nil || err != nil {
				break
			}
			b.from = r
			b.posted.Store(receiveID(uint32(s.posted)+uint32(len(list)), b.index))
			list = append(list, b)
		}
		posted := 0
		if len(list) > 0 {
			posted = r.post(list)
		}
		r.have += posted
		s.have += posted
		s.posted += uint64(posted)
		r.count()
		for _, b := range list[posted:] {
			b.posted.Store(0)
			s.free = append(s.free, b)
		}
		switch {
		case posted < len(list): // the queue or the device is gone, or has no room: the next need tries again
			s.needy.remove(&r.place)
			return
		case r.need() == 0:
			return
		case posted < PostMost:
			s.dry = true // the senders of its peers try again until there is one
			return
		}
	}
}

// mayReceive reports whether n blocks may be posted or held of those that are registered: others may take the memory
// that is not.
// Preconditions: s.mu is held.
func (s *Set) mayReceive(n int) bool {
	for n+s.claimed+int(s.lent.Load()) > ForReceives(s.count()) {
		if !s.grow() {
			return false
		}
	}
	return true
}

// need returns how many receives are missing, and has r in the list of those that lack some.
// Preconditions: s.mu is held.
func (r *Receiver) need() int {
	n := r.want - r.have + r.lost
	if n <= 0 || r.ended {
		r.set.needy.remove(&r.place)
		return 0
	}
	r.place.value = r
	r.set.needy.push(&r.place)
	return n
}

// back frees a block that was posted or held.
// Preconditions: s.mu is held.
func (r *Receiver) back(b *Block) {
	r.have--
	r.set.have--
	r.set.free = append(r.set.free, b)
	r.count()
}

// stop ends posting.
// Preconditions: s.mu is held.
func (r *Receiver) stop() {
	r.ended = true
	r.need()
}

// wants promises n blocks, whether there are so many or not; fewer if n is below 0. See offer.
// Preconditions: s.mu is held.
func (r *Receiver) wants(n int) {
	r.want += n
	r.need()
	r.count()
}

// offer promises n blocks more if there are so many, and registers them. grow reports whether that is beyond what the
// connection began with: it leaves some for those that begin. The error is ErrFull, or Register's.
// Preconditions: s.mu is held.
func (r *Receiver) offer(n int, grow bool) error {
	s := r.set
	more := n
	if r.own {
		more = max(max(r.want+n, r.have)-r.promised, 0)
	}
	if r.want+n > r.depth {
		return ErrFull
	}
	if err := s.reserve(more, r.own, grow); err != nil {
		return err
	}
	r.want += n
	r.promised += more
	s.promised += more
	return nil
}

// count counts what r holds of the memory: what was promised, and what is posted or held beyond if it is of no use to
// others.
// Preconditions: s.mu is held.
func (r *Receiver) count() {
	n := r.want
	if r.own {
		n = max(n, r.have)
	}
	if d := n - r.promised; d != 0 {
		r.promised = n
		r.set.promised += d
		r.set.cfg.Budget.Promise(int64(d) * int64(r.set.cfg.Block))
	}
}
