//go:build !pureverbs_native && linux && (amd64 || arm64)

package ccall

import (
	"os"
	"unsafe"
)

// Env forces the fallback when it is "fallback".
const Env = "PUREVERBS_CCALL"

// useG0 is set once, before main, and never changes.
var useG0, hotWhy = chooseHot(os.Getenv(Env))

func chooseHot(env string) (bool, string) {
	switch {
	case env == "fallback":
		return false, Env + "=fallback"
	case !g0Built:
		return false, "this Go release is not one that the g0 trampoline was tested with"
	}
	if why := selfCheck(); why != "" {
		return false, why
	}
	return true, "self-check passed"
}

// HotPath returns how Hot calls C, "g0" or "cgocall", and why.
func HotPath() (way, why string) {
	if useG0 {
		return "g0", hotWhy
	}
	return "cgocall", hotWhy
}

// thunkArgs is the argument of the thunk. It has no Go pointers.
type thunkArgs struct{ fn, a1, a2, a3, a4, a5, a6, ret uintptr }

// Slow calls fn through runtime.cgocall: the scheduler knows that the thread may block, and gives
// its processor to another thread if it does. Pointers must point to memory that Go does not
// manage. fn must not be 0.
func Slow(fn, a1, a2, a3 uintptr) uintptr { return Slow6(fn, a1, a2, a3, 0, 0, 0) }

// slowDo is Slow with the function and arguments of c.
//
//lint:ignore U1000 called in assembly
func slowDo(c *Call) uintptr { return Slow(c.Fn, c.A1, c.A2, c.A3) }

// Slow6 is Slow with six arguments.
func Slow6(fn, a1, a2, a3, a4, a5, a6 uintptr) uintptr {
	args := thunkArgs{fn: fn, a1: a1, a2: a2, a3: a3, a4: a4, a5: a5, a6: a6}
	cgocall(thunkAddr, noescape(unsafe.Pointer(&args)))
	return args.ret
}

// cgocall keeps the goroutine's stack in place while C runs, so args may be on it. The runtime
// keeps the symbol for users like this package (runtime/cgocall.go, "hall of shame").
//
//go:linkname cgocall runtime.cgocall
func cgocall(fn uintptr, arg unsafe.Pointer) int32

// noescape hides p from escape analysis.
//
//go:nosplit
func noescape(p unsafe.Pointer) unsafe.Pointer {
	x := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&x))
}

// thunkAddr is the address of thunk, a C function, set in assembly.
var thunkAddr uintptr
