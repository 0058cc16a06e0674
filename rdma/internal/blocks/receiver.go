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

	// Of the goroutine that polls:
	front uint64 // postings of the set up to the latest that has completed
}

// Shared returns the set's receiver for any number of connections: an SRQ with room for depth receives. It posts slack
// of them for frames that no promise covers.
func (s *Set) Shared(depth, slack int, post Post) *Receiver {
	r := &Receiver{set: s, post: post, depth: depth, slack: slack}
	s.mu.Lock()
	s.shared = r
	r.wants(slack)
	s.serve(r)
	s.mu.Unlock()
	return r
}

// Account counts the blocks that a connection was promised. Before Begin nothing else has an effect.
type Account struct {
	r *Receiver
	n int
}

// Begin promises n blocks to a connection, whether there are so many or not, and posts receives.
func (a *Account) Begin(r *Receiver, n int) {
	s := r.set
	s.mu.Lock()
	defer s.mu.Unlock()
	a.r, a.n = r, n
	r.living++
	r.wants(n)
	s.serve(r)
}

// Promise promises n blocks more to a connection, and posts receives. A shared receiver always does. A queue of the
// connection's own also has slack receives, for frames that no promise covers, and Promise reports whether all are
// posted.
func (a *Account) Promise(n int) bool {
	s := a.r.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.r.own {
		n += a.r.slack
		return a.r.offer(n, s.Receivable()) && a.posted(n)
	}
	a.r.wants(n)
	a.n += n
	s.serve(a.r)
	return true
}

// posted posts what was promised of late, n blocks more, and reports whether it could. Otherwise nothing was promised.
// Preconditions: s.mu is held.
func (a *Account) posted(n int) bool {
	if a.r.set.serve(a.r); a.r.own && a.r.need() > 0 { // those who send may have the blocks
		a.r.wants(-n)
		return false
	}
	a.n += n
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
	defer s.mu.Unlock()
	most := s.Receivable()
	if a.r.own {
		most -= most / 4 // for connections that begin, since others keep what they have grown to
	}
	return !a.r.ended && a.r.offer(n, most) && a.posted(n) // the peer may be told at once
}

// Shrink undoes Grow. Receives that are posted stay so, in a queue of the connection's own until they complete.
func (a *Account) Shrink(n int) {
	s := a.r.set
	s.mu.Lock()
	a.n -= n
	a.r.wants(-n)
	s.mu.Unlock()
}

// Stop ends posting to a queue of the connection's own, because its receives are flushed or about to be. It reports
// whether there was one.
func (a *Account) Stop() bool {
	if a.r == nil || !a.r.own {
		return false
	}
	a.r.set.mu.Lock()
	defer a.r.set.mu.Unlock()
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
	defer s.mu.Unlock()
	if !a.r.own {
		if !drained {
			a.r.doubt = s.posted
			a.r.lost = int(s.posted - s.arrived.Load())
			s.serve(a.r)
		}
		return
	}
	a.r.stop()
	for _, b := range *s.all.Load() {
		if id := b.posted.Load(); b.from == a.r && id != 0 && b.posted.CompareAndSwap(id, 0) {
			s.purged++
			a.r.back(b)
		}
	}
	s.serveAll()
}

// End takes the promises back. Blocks that the application holds stay its own until they are consumed.
func (a *Account) End() {
	s := a.r.set
	s.mu.Lock()
	a.r.living--
	a.r.wants(-a.n)
	a.n = 0
	s.mu.Unlock()
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
	if !b.posted.CompareAndSwap(id, 0) {
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
	r := b.from
	r.back(b)
	if r.own || r.need() >= max(r.slack/2, 1) { // else the goroutine that polls posts it with others
		s.serve(r)
	}
	s.serveAll()
	s.mu.Unlock()
}

// Refill posts the receives that are missing. The goroutine that polls calls it after a batch of completions.
func (s *Set) Refill() {
	s.mu.Lock()
	if r := s.shared; r != nil {
		// A device takes receives from an SRQ in the order in which they were posted, and a connection has taken at
		// most one that has not completed. If more were passed over, they have gone with queue pairs that no longer
		// exist.
		arrived := s.arrived.Load()
		if r.lost = max(int(r.front-arrived)-r.living, 0); r.front < r.doubt {
			r.lost = int(r.doubt - arrived)
		}
		r.need()
	}
	if s.needy.n > 0 {
		s.refillNeedy()
	}
	s.mu.Unlock()
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
		n := min(r.need(), PostMost, r.depth-r.have, s.Receivable()-s.have)
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
	for n+int(s.lent.Load()) > forReceives(s.count()) {
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

// wants promises n blocks, whether there are so many or not; fewer if n is below 0.
// Preconditions: s.mu is held.
func (r *Receiver) wants(n int) {
	r.want += n
	r.need()
	r.count()
}

// offer is wants, and reports whether there are so many, with at most most blocks promised.
// Preconditions: s.mu is held.
func (r *Receiver) offer(n, most int) bool {
	s := r.set
	more := n
	if r.own {
		more = max(r.want+n, r.have) - r.promised
	}
	for s.promised+more > most && s.cfg.Budget.from != nil {
		if ok, err := s.addSlab(); !ok || err != nil {
			break
		}
		most = s.Receivable()
	}
	if r.want+n > r.depth {
		return false
	}
	if more > 0 && (s.promised+more > most || !s.cfg.Budget.Offer(int64(more)*int64(s.cfg.Block))) {
		return false
	}
	r.want += n
	r.promised += more
	s.promised += more
	return true
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
