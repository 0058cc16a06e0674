//go:build !pureverbs_native

package ccall

import (
	"errors"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// errnoLocation is int *__errno_location(void), 0 if libc has none.
var errnoLocation, _ = Libc("__errno_location")

// Libc returns the address of a function of the C library, or of another library that the program
// is linked against.
func Libc(name string) (uintptr, error) { return Symbol(purego.RTLD_DEFAULT, name) }

// Open opens a library for good. The error has the dynamic linker's reason.
func Open(path string, flags int) (uintptr, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return 0, errors.New("the name has a zero byte")
	}
	// The text of the error belongs to the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL|flags)
	if err != nil {
		return 0, errors.New(strings.TrimPrefix(err.Error(), path+": "))
	}
	return h, nil
}

// Symbol returns the address of a function of a library that Open has opened.
func Symbol(library uintptr, name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(library, name)
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
