//go:build linux && (amd64 || arm64) && !pureverbs_native

package ccall

import (
	"fmt"
	"math/rand/v2"
	"unsafe"
)

// memory lets C write to Go memory, which is small and moved out of stacks.
func (s *stress) memory(r *rand.Rand) string {
	var buf [256]byte
	n := 1 + r.IntN(len(buf)-1)
	if err := Err(s.fill, uintptr(unsafe.Pointer(&buf[0])), uintptr(n)); err != nil {
		return err.Error()
	}
	for i, b := range buf {
		if want := byte(i); i < n && b != want || i >= n && b != 0 {
			return fmt.Sprintf("byte %d of %d is %d after C wrote", i, n, b)
		}
	}
	return ""
}

// errnoHere is the thread's errno.
func errnoHere() *int32 {
	p := Slow(errnoLocation, 0, 0, 0)
	return *(**int32)(unsafe.Pointer(&p))
}

// distance is how far an address is from a Go variable.
func distance(addr uintptr, p *byte) uintptr {
	here := uintptr(unsafe.Pointer(p))
	return max(addr, here) - min(addr, here)
}
