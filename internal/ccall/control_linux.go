//go:build !pureverbs_native

package ccall

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// errnoLocation is int *__errno_location(void), 0 if libc has none.
var errnoLocation, _ = Libc("__errno_location")

// Libc returns the address of a function of the C library, or of another library that the program
// is linked against.
func Libc(name string) (uintptr, error) {
	// The text of the error belongs to the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(purego.RTLD_DEFAULT, name)
}

// call returns the result register and the errno that the call set.
//
//go:uintptrescapes
func call(fn uintptr, args ...uintptr) (uintptr, syscall.Errno, error) {
	switch {
	case fn == 0:
		return 0, 0, &CallError{Args: len(args), Reason: reasonNil}
	case len(args) > maxArgs:
		return 0, 0, &CallError{Fn: fn, Args: len(args), Reason: reasonArgs}
	case errnoLocation == 0:
		return 0, 0, &CallError{Fn: fn, Args: len(args), Reason: "libc has no __errno_location"}
	}
	// A locked thread runs nothing else, so errno stays as C left it: the
	// runtime's own system calls do not touch it.
	runtime.LockOSThread()
	p := Hot(errnoLocation, 0, 0, 0)
	errno := *(**int32)(unsafe.Pointer(&p)) // this thread's errno, in C memory
	*errno = 0
	r, _, _ := purego.SyscallN(fn, args...)
	e := abi.Errno(int(*errno))
	runtime.UnlockOSThread()
	return r, e, nil
}
