//go:build linux && (amd64 || arm64) && !(go1.25 && !go1.28)

package ccall

const g0Built = false

func g0call(fn, a1, a2, a3 uintptr) uintptr { return Slow(fn, a1, a2, a3) }

func selfCheck() string { return "not built" }
