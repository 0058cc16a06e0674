package blocks

import "slices"

// A connection that begins when its blocks would be too many is compact: its peer may send short frames only. Each is
// copied out of its block when it has come, into a piece of another block, and the block is posted again. So compact
// connections share a few receives, and their promises take few blocks.

const (
	worthIt    = 4  // pieces of a block from which on connections may be compact
	forCopies  = 32 // one of so many receives is for frames of compact connections
	forCompact = 16 // one of so many is for their pieces
)

// Kind says where a connection receives its frames.
type Kind uint8

const (
	None    Kind = iota // nothing: there is no memory for another connection
	Whole               // blocks
	Compact             // pieces
)

// compacts are the compact connections of a set. The lock of the set guards it.
type compacts struct {
	conns    int
	whole    int // connections with blocks, of those that share a receiver
	recvs    int // receives for frames of all compact ones
	promised int // pieces
	blocks   int // promised, to be cut
	cut      []*Block
	free     []*Block // pieces
	held     int      // pieces with a frame that was not given back
}

// onHeap is the parent of pieces of no block.
var onHeap Block

// Admit returns what another connection has that begins with n blocks or pieces, of those that share a receiver. It
// counts from now on, until Dismiss or Account.End. Half of the receives are for connections with blocks to begin with,
// and a part is for compact ones only.
func (s *Set) Admit(n int) Kind {
	s.mu.Lock()
	defer s.unlock()
	c := &s.compact
	may := s.cfg.Piece > 0 && s.pieces() >= worthIt
	switch {
	case (!may || (c.whole+1)*n <= s.Receivable()/2) && s.mayPromise(n) &&
		(!may || s.mayPromise(n+s.Receivable()/forCompact)):
		c.whole++
		return Whole
	case may && (c.promised+n <= c.blocks*s.pieces() || s.mayPromise(1)):
		return Compact
	}
	return None
}

func (s *Set) pieceSize() int { return Headroom + s.cfg.Piece }

// pieces is how many pieces a block has.
func (s *Set) pieces() int { return s.cfg.Block / s.pieceSize() }

// Dismiss undoes Admit.
func (s *Set) Dismiss(kind Kind) {
	s.mu.Lock()
	s.dismiss(kind)
	s.unlock()
}

// dismiss is Dismiss.
// Preconditions: s.mu is held.
func (s *Set) dismiss(kind Kind) {
	if kind == Whole {
		s.compact.whole--
	}
}

// beginCompact counts another compact connection. The first one asks for receives for all of them; without, the slack
// has to do.
// Preconditions: s.mu is held.
func (s *Set) beginCompact(r *Receiver) {
	c := &s.compact
	c.conns++
	if n := s.Receivable() / forCopies; c.recvs == 0 && r.offer(n, false) == nil {
		c.recvs = n
		s.serve(r)
	}
}

// endCompact undoes beginCompact.
// Preconditions: s.mu is held.
func (s *Set) endCompact(r *Receiver) {
	c := &s.compact
	if c.conns--; c.conns == 0 {
		r.wants(-c.recvs)
		c.recvs = 0
	}
}

// offerPieces promises n pieces. grow is as in offer. The error is ErrFull, or Register's.
// Preconditions: s.mu is held.
func (s *Set) offerPieces(n int, grow bool) error {
	c := &s.compact
	if most := s.Receivable(); grow && s.promised > most-forBeginners(most, false, true) {
		return ErrFull // also of pieces that are left
	}
	for c.promised+n > c.blocks*s.pieces() {
		if err := s.claim(1, grow); err != nil {
			return err
		}
		c.blocks++
	}
	c.promised += n
	return nil
}

// dropPieces undoes offerPieces. Blocks without a piece in use are returned.
// Preconditions: s.mu is held.
func (s *Set) dropPieces(n int) {
	c := &s.compact
	c.promised -= n
	for c.blocks > 0 && c.promised <= (c.blocks-1)*s.pieces() {
		if len(c.cut) == c.blocks {
			at := slices.IndexFunc(c.cut, func(b *Block) bool { return int(b.Holders.Load()) == s.pieces() })
			if at < 0 {
				return // tried again with the next
			}
			b := c.cut[at]
			c.cut = slices.Delete(c.cut, at, at+1)
			c.free = slices.DeleteFunc(c.free, func(p *Block) bool { return p.parent == b })
			b.Holders.Store(0)
			s.free = append(s.free, b)
		}
		c.blocks--
		s.unclaim(1)
	}
	s.serveAll()
}

// Copy moves a frame with n bytes of payload, which has come for a compact connection, to a piece, and takes its block
// back.
func (s *Set) Copy(b *Block, n int) *Block {
	p := s.piece()
	copy(p.Mem[Headroom-header:], b.Mem[Headroom-header:Headroom+n])
	s.Consumed(b)
	return p
}

// piece returns a free piece. If senders have the blocks that were promised for pieces, it is on the heap.
func (s *Set) piece() *Block {
	s.mu.Lock()
	defer s.unlock()
	c := &s.compact
	c.held++
	if len(c.free) == 0 && len(c.cut) < c.blocks {
		if whole, err := s.take(); whole != nil && err == nil {
			c.cut = append(c.cut, whole)
			size, n := s.pieceSize(), s.pieces()
			for i := range n {
				c.free = append(c.free, &Block{Mem: whole.Mem[i*size : (i+1)*size : (i+1)*size], parent: whole})
			}
			whole.Holders.Store(int32(n))
		}
	}
	last := len(c.free) - 1
	if last < 0 {
		return &Block{Mem: make([]byte, s.pieceSize()), parent: &onHeap}
	}
	p := c.free[last]
	c.free = c.free[:last]
	p.parent.Holders.Add(-1)
	return p
}

// backPiece takes back a piece.
// Preconditions: s.mu is held.
func (s *Set) backPiece(p *Block) {
	s.compact.held--
	if p.parent != &onHeap {
		p.parent.Holders.Add(1)
		s.compact.free = append(s.compact.free, p)
	}
}

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
	defer s.unlock()
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
	defer s.unlock()
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
