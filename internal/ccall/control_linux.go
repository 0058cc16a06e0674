package ccall

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// ErrNoFunction is a call of a NULL pointer, which was not made.
var ErrNoFunction = errors.New("call of a C function that is not there")

// errnoLocation is int *__errno_location(void).
var errnoLocation = sync.OnceValue(func() uintptr {
	fn, err := purego.Dlsym(purego.RTLD_DEFAULT, "__errno_location")
	if err != nil {
		return 0
	}
	return fn
})

// call returns the result register and the errno that the call set.
//
//go:uintptrescapes
func call(fn uintptr, args ...uintptr) (uintptr, syscall.Errno, error) {
	location := errnoLocation()
	if fn == 0 || location == 0 {
		return 0, 0, ErrNoFunction
	}
	runtime.LockOSThread()
	p, _, _ := purego.SyscallN(location)
	errno := *(**int32)(unsafe.Pointer(&p)) // this thread's, in C memory
	*errno = 0
	r, _, _ := purego.SyscallN(fn, args...)
	e := syscall.Errno(*errno)
	runtime.UnlockOSThread()
	return r, e, nil
}
