package rsocket

import (
	"sync/atomic"
	"unsafe"
)

// Load returns byte i of the memory, which the peer may write to meanwhile. Earlier writes of the peer are then also in
// memory, on devices that write in order. It panics if i is out of range, as for a slice.
func (m *IOMap) Load(i int) byte {
	// There are no atomic bytes: it is part of an aligned word, which is in the same page.
	p := unsafe.Pointer(&m.b[i])
	in := uintptr(p) & 3
	return byte(atomic.LoadUint32((*uint32)(unsafe.Add(p, -int(in)))) >> (8 * in))
}
