package rdma

import "sync"

// budget bounds the memory of an engine, which blocks and buffers share.
type budget struct {
	mu       sync.Mutex
	most     int64
	slab     int64   // blocks are registered by so many bytes
	blocks   int64   // registered bytes
	buffers  int64   // the same
	promised int64   // bytes of the blocks that peers may fill
	from     *budget // of large blocks: most is the registered memory, which counts as buffers there
}

// addBlocks makes room for n bytes of blocks, and reports whether there is. The first ones are always there.
func (m *budget) addBlocks(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.from != nil:
		if !m.from.addBuffers(n) {
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
func (m *budget) dropBlocks(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocks -= n
	if m.from != nil {
		m.from.dropBuffers(n)
		m.most -= n
	}
}

// addBuffers makes room for n bytes of buffers, and reports whether there is: memory that was promised to peers stays.
func (m *budget) addBuffers(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if left := m.most - m.buffers - n; left < m.blocks || m.receivableOf(left) < m.promised {
		return false
	}
	m.buffers += n
	return true
}

// used is how many bytes are registered.
func (m *budget) used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blocks + m.buffers
}

// dropBuffers undoes addBuffers.
func (m *budget) dropBuffers(n int64) {
	m.mu.Lock()
	m.buffers -= n
	m.mu.Unlock()
}

// promise counts n bytes of blocks as promised, less of them if n is below 0.
func (m *budget) promise(n int64) {
	m.mu.Lock()
	m.promised += n
	m.mu.Unlock()
}

// offer is promise, and reports whether there is room.
func (m *budget) offer(n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.promised+n > m.receivableOf(m.most-m.buffers) {
		return false
	}
	m.promised += n
	return true
}

// receivable is how many bytes of blocks each of some pollers may have posted or held: the rest is for sending.
func (m *budget) receivable(pollers int) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.receivableOf((m.most - m.buffers) / int64(pollers))
}

func (m *budget) receivableOf(n int64) int64 { return n / m.slab * m.slab / 4 * 3 }
