package mlx5

import (
	"errors"
	"math/bits"
	"slices"

	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// addr returns where the ring begins, 0 if it is none.
func (r *ring) addr() uint64 { return uint64(cmem.SliceAddr(r.bytes)) }

func (r record) addr() uintptr { return cmem.SliceAddr(r) }

// zero clears the counters, of a queue that the device does not read.
func (r record) zero() { clear(r) }

const (
	firstChunk = 256 << 10 // bytes
	mostChunk  = 4 << 20   // a ring of more than a quarter of it has its own mapping

	recordRoom = 64 // a cache line
	recordSize = 8
)

// ring returns n zeroed bytes. No bytes are no ring.
func (m *memory) ring(n int) (ring, error) {
	if n == 0 {
		return ring{}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pages(n)
}

// pages returns n zeroed bytes.
// Preconditions: m.mu is held.
func (m *memory) pages(n int) (ring, error) {
	page := uverbs.PageSize()
	want := (n + page - 1) / page
	total := 0
	for _, c := range m.chunks {
		total += len(c.used) * page
		if first := c.find(want); first >= 0 {
			return c.take(first, want, n), nil
		}
	}
	size := want * page
	if n <= mostChunk/4 {
		size = max(size, min(mostChunk, max(firstChunk, 1<<bits.Len(uint(total)))))
	}
	mem, err := dma.Alloc(size, nil)
	if err != nil {
		return ring{}, errnoOf(err)
	}
	c := &chunk{mem: mem, used: make([]bool, size/page), free: size / page}
	m.chunks = append(m.chunks, c)
	return c.take(0, want, n), nil
}

// find returns the first of n free pages in a row, -1 if there are none.
func (c *chunk) find(n int) int {
	if c.free < n {
		return -1
	}
	for i, row := c.low, 0; i < len(c.used); i++ {
		if row++; c.used[i] {
			row = 0
		}
		if row == n {
			return i + 1 - n
		}
	}
	return -1
}

func (c *chunk) take(first, pages, n int) ring {
	size := uverbs.PageSize()
	for i := range pages {
		c.used[first+i] = true
	}
	c.free -= pages
	if first == c.low {
		c.low += pages
	}
	b := c.mem.Bytes()[first*size:]
	if first < c.dirty {
		clear(b[:min(pages, c.dirty-first)*size])
	}
	c.dirty = max(c.dirty, first+pages)
	return ring{c, first, b[:n:n]}
}

// release frees a ring that no device uses.
func (m *memory) release(r ring) error {
	if r.chunk == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, page := r.chunk, uverbs.PageSize()
	n := (len(r.bytes) + page - 1) / page
	for i := range n {
		c.used[r.page+i] = false
	}
	c.free += n
	c.low = min(c.low, r.page)
	if c.free < len(c.used) || len(m.chunks) == 1 && len(c.used)*page <= mostChunk {
		return nil
	}
	m.chunks = slices.DeleteFunc(m.chunks, func(o *chunk) bool { return o == c })
	return c.mem.Free()
}

// record returns a zeroed doorbell record.
func (m *memory) record() (record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.records) == 0 {
		page := uverbs.PageSize()
		r, err := m.pages(page)
		if err != nil {
			return nil, err
		}
		for off := page - recordRoom; off >= 0; off -= recordRoom {
			m.records = append(m.records, r.bytes[off:off+recordSize:off+recordSize])
		}
	}
	r := m.records[len(m.records)-1]
	m.records = m.records[:len(m.records)-1]
	r.zero()
	return r, nil
}

// end frees all.
func (m *memory) end() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, c := range m.chunks {
		errs = append(errs, c.mem.Free())
	}
	m.chunks, m.records = nil, nil
	return errors.Join(errs...)
}

// queue returns one with a ring of n bytes.
func (m *memory) queue(n int) (q queue, err error) {
	if q.ring, err = m.ring(n); err == nil {
		if q.record, err = m.record(); err != nil {
			err = also(err, m.release(q.ring))
		}
	}
	return q, err
}

// drop frees a queue that no device uses. That of a QP without rings has none.
func (m *memory) drop(q queue) error {
	if q.record != nil {
		m.mu.Lock()
		m.records = append(m.records, q.record)
		m.mu.Unlock()
	}
	return m.release(q.ring)
}
