//go:build !pureverbs_native

package ccall

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// Ssize calls a function of up to three arguments that returns a size, or -1 and sets errno. Ssize
// allocates nothing. The scheduler knows that the thread may block. Arguments may point to C
// memory, or to heap memory that the caller keeps alive. A result of -1 with errno 0 is EINVAL.
func Ssize(fn, a1, a2, a3 uintptr) (int, syscall.Errno) {
	if fn == 0 || errnoLocation == 0 {
		return -1, syscall.ENOSYS
	}
	runtime.LockOSThread()
	p := Hot(errnoLocation, 0, 0, 0)
	errno := *(**int32)(unsafe.Pointer(&p)) // this thread's errno, in C memory
	*errno = 0
	n := int(Slow(fn, a1, a2, a3))
	e := abi.Errno(int(*errno))
	runtime.UnlockOSThread()
	switch {
	case n >= 0:
		return n, 0
	case e == 0:
		return -1, syscall.EINVAL
	}
	return -1, e
}
