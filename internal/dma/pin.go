package dma

import (
	"runtime"
	"sync"
)

// Pinned keeps memory of the Go heap in place until Unpin. It stays reachable even if its owner is
// dropped without Close: the device may still write to the memory, and the runtime panics when it
// collects a runtime.Pinner that still pins.
type Pinned struct{ pinner runtime.Pinner }

var pins sync.Map // of *Pinned

// Pin pins the memory of b, which must not be empty. Memory outside the Go heap does not move and
// is left alone.
func Pin(b []byte) *Pinned {
	p := new(Pinned)
	func() {
		defer func() { _ = recover() }() // the Pinner panics for such memory
		p.pinner.Pin(&b[0])
	}()
	pins.Store(p, nil)
	return p
}

// Unpin ends the pinning. On a nil Pinned it does nothing.
func (p *Pinned) Unpin() {
	if p == nil {
		return
	}
	p.pinner.Unpin()
	pins.Delete(p)
}
