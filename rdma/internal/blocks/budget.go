package blocks

import "sync"

// Budget bounds the memory of an engine, which blocks, buffers and messages share. It is safe for concurrent use.
type Budget struct {
	mu       sync.Mutex
	most     int64
	slab     int64   // blocks are registered by so many bytes
	blocks   int64   // registered bytes
	buffers  int64   // the same, and bytes of messages that are being copied together
	beyond   int64   // bytes of a message that is there although there is no room for it
	promised int64   // bytes of the blocks that peers may fill
	from     *Budget // of a part: most is the registered memory, which counts as buffers there
}

// NewBudget returns a budget of most bytes. Blocks take slab bytes at a time.
func NewBudget(most, slab int64) *Budget { return &Budget{most: most, slab: slab} }

// Part returns a budget for blocks that takes what it registers from m, as buffers do. It promises only memory that is
// registered.
func (m *Budget) Part(slab int64) *Budget { return &Budget{slab: slab, from: m} }

// addBlocks makes room for n bytes of blocks, and reports whether there is. The first ones are always there.
func (m *Budget) addBlocks(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.from != nil:
		if !m.from.AddBuffers(n) {
			return false
		}
		m.most += n
	case m.blocks > 0 && m.blocks+m.buffers+n > m.most:
		return false
	}
	m.blocks += n
	return true
}

// dropBlocks undoes addBlocks.
func (m *Budget) dropBlocks(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocks -= n
	if m.from != nil {
		m.from.DropBuffers(n)
		m.most -= n
	}
}

// ample reports whether n bytes of blocks more leave half of the memory to others. The first ones do.
func (m *Budget) ample(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blocks == 0 || m.from == nil && m.blocks+m.buffers+n <= m.most/2
}

// AddBuffers makes room for n bytes of buffers, and reports whether there is: memory that was promised to peers stays.
func (m *Budget) AddBuffers(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if left := m.most - m.buffers - n; left < m.blocks || m.receivableOf(left) < m.promised {
		return false
	}
	m.buffers += n
	return true
}

// DropBuffers undoes AddBuffers.
func (m *Budget) DropBuffers(n int64) {
	m.mu.Lock()
	m.buffers -= n
	m.mu.Unlock()
}

// spare counts n bytes of a message for which there is no room.
func (m *Budget) spare(n int64) {
	m.mu.Lock()
	m.beyond += n
	m.mu.Unlock()
}

// Used is how many bytes blocks, buffers and messages have.
func (m *Budget) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blocks + m.buffers + m.beyond
}

// Promise counts n bytes of blocks as promised, less of them if n is below 0.
func (m *Budget) Promise(n int64) {
	m.mu.Lock()
	m.promised += n
	m.mu.Unlock()
}

// Offer is Promise, and reports whether there is room.
func (m *Budget) Offer(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	room := m.roomFor(n)
	if room {
		m.promised += n
	}
	return room
}

// promisable reports whether there is room to promise n bytes.
func (m *Budget) promisable(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.roomFor(n)
}

// roomFor is promisable.
// Preconditions: m.mu is held.
func (m *Budget) roomFor(n int64) bool { return m.promised+n <= m.receivableOf(m.most-m.buffers) }

// Receivable is how many bytes of blocks may be promised, with those that are.
func (m *Budget) Receivable() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.receivableOf(m.most - m.buffers)
}

// slabs is how many slabs of blocks each of some sets may have.
func (m *Budget) slabs(sets int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int((m.most - m.buffers) / int64(sets) / m.slab)
}

// receivableOf is how many of n bytes may be posted or held.
func (m *Budget) receivableOf(n int64) int64 { return ForReceives(n / m.slab * m.slab) }

// ForReceives is how many of n blocks or bytes may be posted or held. The rest is for sending.
func ForReceives[T int | int64](n T) T { return n * 3 / 4 }

// forAhead is how many of n blocks may always have frames without credits; receives may lend them more. What is left
// is for frames with credits, which need their blocks for a short time only.
func forAhead(n int) int { return n * 3 / 16 }
