package loop

import (
	"sync/atomic"
	"unsafe"
)

// word returns the aligned word at the beginning of mem, memory off the Go heap that a device reads or writes.
func word(mem []byte) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&mem[:4][0])) }

// arrival watches one byte that the device writes behind the compiler's back.
// It reads the aligned word around it, as there are no atomic bytes; the word must be in the same memory off the Go
// heap.
type arrival struct {
	word  *uint32
	shift uint
}

// watchByte watches mem[i].
func watchByte(mem []byte, i int) arrival {
	p := uintptr(unsafe.Pointer(&mem[i]))
	in := p & 3
	return arrival{(*uint32)(unsafe.Add(unsafe.Pointer(&mem[i]), -int(in))), uint(in) * 8}
}

// load returns the byte as it is now. Verbs run on little-endian machines only
// here (amd64, arm64).
func (a arrival) load() byte { return byte(atomic.LoadUint32(a.word) >> a.shift) }

// spin reads the byte for about as long as a few polls of a CQ take, and reports whether it has become want.
func (a arrival) spin(want byte) bool {
	for range 32 {
		if a.load() == want {
			return true
		}
	}
	return false
}
