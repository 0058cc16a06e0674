package inmem

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/fifo"
)

// CQ has completions in the order in which they came.
type CQ struct {
	a      *Adapter
	list   fifo.Queue[ibv.WC]
	armed  bool
	events uint32
	event  chan struct{} // has a token when there is an event that was not read
}

// NewCQ returns a completion queue, which is never full.
func (a *Adapter) NewCQ() *CQ { return &CQ{a: a, event: make(chan struct{}, 1)} }

// Poll moves completions to wcs, and returns how many.
func (c *CQ) Poll(wcs []ibv.WC) (int, error) {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	n := min(len(wcs), c.list.Len())
	for i := range n {
		wcs[i] = c.list.Pop()
	}
	return n, nil
}

// Len returns how many completions there are.
func (c *CQ) Len() int {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	return c.list.Len()
}

// Arm asks for an event with the next completion. Completions that are there raise none.
func (c *CQ) Arm() error {
	c.a.mu.Lock()
	c.armed = true
	c.a.mu.Unlock()
	return nil
}

// Events returns how many events were read.
func (c *CQ) Events() uint32 {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	return c.events
}

// ReadEvents waits for an event, or for Interrupt.
func (c *CQ) ReadEvents() error {
	<-c.event
	c.a.mu.Lock()
	c.events++
	c.a.mu.Unlock()
	return nil
}

// Interrupt ends ReadEvents, or the next one.
func (c *CQ) Interrupt() {
	select {
	case c.event <- struct{}{}:
	default:
	}
}

// push adds a completion.
// Preconditions: a.mu is held.
func (c *CQ) push(wc ibv.WC) {
	c.list.Push(wc)
	if c.armed {
		c.armed = false
		c.Interrupt()
	}
}
