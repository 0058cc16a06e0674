//go:build !pureverbs_native && linux && !(amd64 || arm64)

package ccall

import "github.com/ebitengine/purego"

// Env forces the fallback when it is "fallback".
const Env = "PUREVERBS_CCALL"

// HotPath returns how Hot calls C, and why.
func HotPath() (way, why string) { return "purego", "the trampoline is for amd64 and arm64" }

// Hot calls fn; see the package documentation.
func Hot(fn, a1, a2, a3 uintptr) uintptr { return Slow(fn, a1, a2, a3) }

// Do is Hot with the function and arguments of c.
func Do(c *Call) uintptr { return Hot(c.Fn, c.A1, c.A2, c.A3) }

// Hot6 is Hot with six arguments.
func Hot6(fn, a1, a2, a3, a4, a5, a6 uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, a1, a2, a3, a4, a5, a6)
	return r
}

// Slow calls fn; see the package documentation.
func Slow(fn, a1, a2, a3 uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, a1, a2, a3)
	return r
}
