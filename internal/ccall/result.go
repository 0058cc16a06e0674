package ccall

import (
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// Ptr calls a function that returns a pointer, or NULL and sets errno. NULL
// with errno 0, which some providers return, is EINVAL.
//
//go:uintptrescapes
func Ptr(fn uintptr, args ...uintptr) (uintptr, error) {
	r, errno, err := call(fn, args...)
	switch {
	case err != nil:
		return 0, err
	case r != 0:
		return r, nil
	case errno == 0:
		return 0, syscall.EINVAL
	}
	return 0, errno
}

// Err calls a function that returns 0 or an errno. Some providers negate it, and
// some return -1 and set errno.
//
//go:uintptrescapes
func Err(fn uintptr, args ...uintptr) error {
	r, errno, err := call(fn, args...)
	switch n := int32(r); {
	case err != nil:
		return err
	case n == 0:
		return nil
	case n == -1 && errno != 0:
		return errno
	case n < 0:
		return abi.Errno(int(-n))
	default:
		return abi.Errno(int(n))
	}
}

// Minus1 calls a function that returns 0, or -1 and sets errno.
//
//go:uintptrescapes
func Minus1(fn uintptr, args ...uintptr) error {
	_, err := Minus1Int(fn, args...)
	return err
}

// Minus1Int calls a function that returns a number that is not negative, or -1 or another negative number of its own
// and sets errno.
//
//go:uintptrescapes
func Minus1Int(fn uintptr, args ...uintptr) (int, error) {
	r, errno, err := call(fn, args...)
	n := int32(r)
	switch {
	case err != nil:
		return 0, err
	case n >= 0:
		return int(n), nil
	case errno == 0:
		return int(n), syscall.EINVAL
	}
	return int(n), errno
}

// NegErrno calls a function that returns a count, or an errno negated (ssize_t).
//
//go:uintptrescapes
func NegErrno(fn uintptr, args ...uintptr) (int, error) {
	r, _, err := call(fn, args...)
	if err != nil {
		return 0, err
	}
	if n := int64(r); n < 0 {
		return 0, abi.Errno(int(-n))
	}
	return int(r), nil
}

// Size calls a function that returns a size, or -1 and sets errno (ssize_t, off_t).
//
//go:uintptrescapes
func Size(fn uintptr, args ...uintptr) (int, error) {
	r, errno, err := call(fn, args...)
	switch {
	case err != nil:
		return 0, err
	case int(r) != -1:
		return int(r), nil
	case errno == 0:
		return 0, syscall.EINVAL
	}
	return 0, errno
}

// Void calls a function that returns nothing.
//
//go:uintptrescapes
func Void(fn uintptr, args ...uintptr) error {
	_, _, err := call(fn, args...)
	return err
}

// Int calls a function that returns an int and does not fail. It returns 0 if fn is 0.
//
//go:uintptrescapes
func Int(fn uintptr, args ...uintptr) int32 {
	r, _, _ := call(fn, args...)
	return int32(r) // the upper half of the register is not defined
}

// Uint64 calls a function that returns 64 bits and does not fail.
//
//go:uintptrescapes
func Uint64(fn uintptr, args ...uintptr) uint64 {
	r, _, _ := call(fn, args...)
	return uint64(r)
}

// String calls a function that returns a static string; "" for NULL.
//
//go:uintptrescapes
func String(fn uintptr, args ...uintptr) string {
	r, _, _ := call(fn, args...)
	return cmem.String(r)
}
