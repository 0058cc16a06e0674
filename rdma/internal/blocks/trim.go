package blocks

// Trim deregisters slabs without a block in use, and small blocks if none is in use. It leaves keep slabs, and what is
// promised. It reports whether it has freed memory. A caller that has no lock of a set may wait; others do nothing if
// the set is busy at the moment.
func (s *Set) Trim(keep int, wait bool) bool {
	if wait {
		s.mu.Lock()
	} else if !s.mu.TryLock() {
		return false
	}
	slabs, small := s.trimSlabs(keep), s.small.trim()
	s.unlock()
	s.close(slabs, func() { s.cfg.Budget.dropBlocks(s.cfg.Slab) })
	s.close(small, func() {})
	return len(slabs) > 0
}

// close closes memory. What cannot be closed still counts, and is closed with the set.
func (s *Set) close(list []Memory, dropped func()) {
	for _, mem := range list {
		if mem.Close() == nil {
			dropped()
			continue
		}
		s.mu.Lock()
		s.stuck = append(s.stuck, mem)
		s.unlock()
	}
}

// trimSlabs takes out the slabs that are not needed, and returns them.
// Preconditions: s.mu is held.
func (s *Set) trimSlabs(keep int) (list []Memory) {
	if s.live <= keep || len(s.free) < s.PerSlab {
		return nil
	}
	free := make([]int, len(s.slabs)) // blocks, by slab
	for _, b := range s.free {
		free[int(b.index)/s.PerSlab]++
	}
	all := append([]*Block(nil), *s.all.Load()...)
	left := s.free[:0]
	for i := len(free) - 1; i >= 0; i-- {
		if free[i] < s.PerSlab || !s.spares(keep) {
			free[i] = 0
			continue
		}
		list = append(list, s.slabs[i])
		s.slabs[i] = nil
		s.live--
		clear(all[i*s.PerSlab : (i+1)*s.PerSlab])
	}
	for _, b := range s.free {
		if free[int(b.index)/s.PerSlab] == 0 {
			left = append(left, b)
		}
	}
	clear(s.free[len(left):])
	s.free = left
	s.all.Store(&all)
	return list
}

// spares reports whether the set can do without one of its slabs.
// Preconditions: s.mu is held.
func (s *Set) spares(keep int) bool {
	n, lent := (s.live-1)*s.PerSlab, int(s.lent.Load())
	return s.live > keep && max(s.promised, s.have+s.claimed+lent) <= ForReceives(n) &&
		int(s.ahead.Load()) <= forAhead(n)+lent
}
