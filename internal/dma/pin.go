package dma

import (
	"runtime"
	"sync"
)

// Pinned keeps memory of the Go heap where it is, until Unpin. It stays
// reachable meanwhile, whatever becomes of the object that it was made for: the
// device may still write to the memory of one that was dropped without Close,
// and the runtime panics when it collects a runtime.Pinner that still pins.
type Pinned struct{ pinner runtime.Pinner }

var pins = struct {
	sync.Mutex
	all map[*Pinned]struct{}
}{all: make(map[*Pinned]struct{})}

// Pin pins the memory of b, which must have a byte. Memory that is not Go's
// does not move, and is let be.
func Pin(b []byte) *Pinned {
	p := new(Pinned)
	func() {
		defer func() { _ = recover() }() // what the Pinner says to such memory
		p.pinner.Pin(&b[0])
	}()
	pins.Lock()
	pins.all[p] = struct{}{}
	pins.Unlock()
	return p
}

// Unpin lets the memory go. A nil Pinned pins nothing.
func (p *Pinned) Unpin() {
	if p == nil {
		return
	}
	p.pinner.Unpin()
	pins.Lock()
	delete(pins.all, p)
	pins.Unlock()
}
