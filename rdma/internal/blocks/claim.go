package blocks

import "cmp"

// Receivable is how many blocks may be posted or held: the rest is for sending.
func (s *Set) Receivable() int { return ForReceives(s.cfg.Budget.slabs(s.cfg.Sets) * s.PerSlab) }

// Promisable reports whether n blocks more may be promised. Others may take them first.
func (s *Set) Promisable(n int) bool {
	s.mu.Lock()
	defer s.unlock()
	return s.mayPromise(n)
}

// mayPromise is Promisable.
// Preconditions: s.mu is held.
func (s *Set) mayPromise(n int) bool {
	return s.promised+n <= s.Receivable() && s.budgeted(func(m *Budget) bool {
		return m.promisable(int64(n) * int64(s.cfg.Block))
	})
}

// Claim returns n blocks for a use that the set does not know. They count as promised until Unclaim. The error is
// ErrFull, or Register's.
func (s *Set) Claim(n int) (list []*Block, err error) {
	s.mu.Lock()
	defer s.unlock()
	if err := s.claim(n, false); err != nil {
		return nil, err
	}
	for range n {
		b, err := s.take()
		if b == nil || err != nil { // senders have them
			s.free = append(s.free, list...)
			s.unclaim(n)
			return nil, cmp.Or(err, ErrFull)
		}
		list = append(list, b)
	}
	return list, nil
}

// Unclaim undoes Claim.
func (s *Set) Unclaim(list []*Block) {
	s.mu.Lock()
	defer s.unlock()
	s.free = append(s.free, list...)
	s.unclaim(len(list))
	s.serveAll()
}

// claim promises n blocks for a use other than receives.
// Preconditions: s.mu is held.
func (s *Set) claim(n int, grow bool) error {
	if err := s.reserve(n, false, grow); err != nil {
		return err
	}
	s.promised += n
	s.claimed += n
	return nil
}

// unclaim undoes claim.
// Preconditions: s.mu is held.
func (s *Set) unclaim(n int) {
	s.claimed -= n
	s.promised -= n
	s.cfg.Budget.Promise(-int64(n) * int64(s.cfg.Block))
}

// reserve promises n blocks in the budget, and registers what is missing. own and grow are as in forBeginners. The
// error is ErrFull, or Register's.
// Preconditions: s.mu is held.
func (s *Set) reserve(n int, own, grow bool) error {
	for n > 0 {
		most := s.Receivable()
		over := s.promised+n > most-forBeginners(most, own, grow)
		if over && s.cfg.Budget.from == nil && s.lent.Load() == 0 { // else with more memory more may be promised
			return ErrFull
		}
		if !over && s.promised+n <= ForReceives(s.count()) {
			break
		}
		if ok, err := s.addSlab(); err != nil || !ok {
			s.full = true
			return cmp.Or(err, ErrFull)
		}
	}
	if !s.budgeted(func(m *Budget) bool { return m.Offer(int64(n) * int64(s.cfg.Block)) }) {
		return ErrFull
	}
	return nil
}

// forBeginners is how many of n blocks windows do not grow into, since others keep what they have grown to. A queue of
// a connection's own returns less, and needs more to begin.
func forBeginners(n int, own, grow bool) int {
	switch {
	case !grow:
		return 0
	case own:
		return n / 4
	}
	return n / 8
}

// budgeted reports whether ask finds room in the budget, if need be after memory without use was freed.
// Preconditions: s.mu is held.
func (s *Set) budgeted(ask func(*Budget) bool) bool {
	return ask(s.cfg.Budget) || s.cfg.Trim != nil && s.cfg.Trim() && ask(s.cfg.Budget)
}
