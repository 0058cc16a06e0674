package blocks

// Each sender of a set has a small block of its own, so that a connection can send a short frame however many blocks
// others have: those of dead or stopped peers come back late. They do not count in the budget.

const (
	// SmallPayload is the most payload of a small block.
	SmallPayload = smallBlock - Headroom

	smallBlock = 256
	smallSlab  = 64 << 10 // bytes that are registered at a time
)

// smalls has the small blocks of a set. The lock of the set guards it.
type smalls struct {
	free []*Block
	mem  []Memory
}

// Equip gives a sender its small block. The error is Register's.
func (s *Set) Equip(w *Sender) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.small.free) == 0 {
		mem, err := s.cfg.Register(smallSlab)
		if err != nil {
			return err
		}
		s.small.mem = append(s.small.mem, mem)
		s.small.free = cut(mem, smallBlock, smallSlab/smallBlock)
	}
	last := len(s.small.free) - 1
	w.small, s.small.free = s.small.free[last], s.small.free[:last]
	w.small.small, w.small.owner = true, w
	return nil
}

// Retire takes the small block of a sender back, now or when it is given back.
func (s *Set) Retire(w *Sender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := w.small
	if b == nil {
		return
	}
	w.small, b.owner = nil, nil
	if !w.spent {
		s.small.free = append(s.small.free, b)
	}
}

// back returns a small block to its sender, which may wait for it.
func (m *smalls) back(b *Block) {
	w := b.owner
	if w == nil {
		m.free = append(m.free, b)
		return
	}
	w.spent = false
	if w.place.in {
		w.Wake()
	}
}

// trim returns the memory of all small blocks if none is in use.
func (m *smalls) trim() []Memory {
	if len(m.mem) == 0 || len(m.free) < len(m.mem)*(smallSlab/smallBlock) {
		return nil
	}
	list := m.mem
	m.mem, m.free = nil, nil
	return list
}
