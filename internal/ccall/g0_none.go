//go:build !pureverbs_native && linux && (amd64 || arm64) && !(go1.25 && !go1.28)

package ccall

const g0Built = false

// Hot calls a C function that returns soon, does not block and does not call back
// into Go. Arguments are integers and pointers off the Go heap. fn must not be 0.
func Hot(fn, a1, a2, a3 uintptr) uintptr { return Slow(fn, a1, a2, a3) }

// Do is Hot with the function and arguments of c.
func Do(c *Call) uintptr { return Hot(c.Fn, c.A1, c.A2, c.A3) }

// Hot6 is Hot with six arguments.
func Hot6(fn, a1, a2, a3, a4, a5, a6 uintptr) uintptr { return Slow6(fn, a1, a2, a3, a4, a5, a6) }

func selfCheck() string { return "not built" }
