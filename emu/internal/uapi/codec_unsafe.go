//go:build linux

package uapi

import "unsafe"

// Decode copies the head of b to a T, a struct without pointers. What b lacks is zero, as the kernel extends short
// requests.
func Decode[T any](b []byte) (v T) {
	copy(Bytes(&v), b)
	return v
}

// Bytes returns v's memory, v being a struct without pointers.
func Bytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// sliceBytes returns the memory of a slice of structs without pointers.
func sliceBytes[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*Size[T]())
}

// Size returns the size of T in bytes.
func Size[T any]() int {
	var v T
	return int(unsafe.Sizeof(v))
}

// Cleared reports whether b[from:] holds only zeros: a request longer than what is known must.
func Cleared(b []byte, from int) bool {
	for i := from; i < len(b); i++ {
		if b[i] != 0 {
			return false
		}
	}
	return true
}
