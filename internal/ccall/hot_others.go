//go:build !linux || pureverbs_native

package ccall

// Env forces the fallback when it is "fallback".
const Env = "PUREVERBS_CCALL"

// HotPath returns how Hot calls C, and why.
func HotPath() (way, why string) { return "none", reasonSystem }

// Hot returns -1 on this operating system.
func Hot(_, _, _, _ uintptr) uintptr { return ^uintptr(0) }

// Do is Hot with the function and arguments of c.
func Do(c *Call) uintptr { return Hot(c.Fn, c.A1, c.A2, c.A3) }

// Hot6 returns -1 on this operating system.
func Hot6(_, _, _, _, _, _, _ uintptr) uintptr { return ^uintptr(0) }

// Slow returns -1 on this operating system.
func Slow(_, _, _, _ uintptr) uintptr { return ^uintptr(0) }
