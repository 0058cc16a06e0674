//go:build !pureverbs_native && linux && (amd64 || arm64) && go1.25 && !go1.28

package ccall

import (
	"fmt"
	"unsafe"
)

// g0Built reports whether Hot is built: the offsets below were read from the sources of these Go
// releases and stress-tested with each. To admit a new release, test it, then extend the build
// constraints here, in g0_none.go and in the assembly.
const g0Built = true

// Offsets in the runtime's structs (runtime/runtime2.go; comments there pin them: "known to
// liblink", "known to runtime/cgo"). The assembly repeats them.
const (
	offStackLo = 0
	offStackHi = 8
	offM       = 48
	offSchedSP = 56
	offG0      = 0
)

// minRoom is how much of the g0 stack a C function may use. With purego or cgo that stack is a
// pthread's, which has megabytes; the runtime's own would have 16 KiB.
const minRoom = 64 << 10

// Hot calls a C function that returns soon, does not block and does not call back
// into Go. Arguments are integers and pointers off the Go heap. fn must not be 0.
// It is Slow unless useG0.
func Hot(fn, a1, a2, a3 uintptr) uintptr

// Hot6 is Hot with six arguments. It is Slow6 unless useG0.
func Hot6(fn, a1, a2, a3, a4, a5, a6 uintptr) uintptr

// Do is Hot with the function and arguments of c.
//
//go:noescape
func Do(c *Call) uintptr

// getg returns the current g, and the stack pointer.
//
//go:noescape
func getg() (gp, sp uintptr)

// selfCheck checks the offsets on this runtime. It returns what is wrong, or "".
func selfCheck() string {
	word := func(p, off uintptr) uintptr {
		p += off
		return **(**uintptr)(unsafe.Pointer(&p))
	}
	g, sp := getg()
	if lo, hi := word(g, offStackLo), word(g, offStackHi); lo >= sp || sp >= hi {
		return fmt.Sprintf("self-check: stack pointer %#x is not in g.stack %#x to %#x", sp, lo, hi)
	}
	m := word(g, offM)
	if m == 0 {
		return "self-check: g.m is nil"
	}
	g0 := word(m, offG0)
	if g0 == 0 || g0 == g || word(g0, offM) != m {
		return "self-check: m.g0 is not the g0 of this m"
	}
	lo, hi, g0sp := word(g0, offStackLo), word(g0, offStackHi), word(g0, offSchedSP)
	if g0sp <= lo || g0sp > hi {
		return fmt.Sprintf("self-check: g0.sched.sp %#x is not in the g0 stack %#x to %#x", g0sp, lo, hi)
	}
	if g0sp-lo < minRoom {
		return fmt.Sprintf("self-check: %d bytes of g0 stack, less than %d", g0sp-lo, minRoom)
	}
	return ""
}
