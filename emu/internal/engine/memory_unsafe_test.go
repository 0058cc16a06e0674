//go:build linux

package engine

import "unsafe"

// va is where a program has b. The test keeps b where it is.
func va(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// memoryAt is memory that the test mapped.
func memoryAt(p uintptr, size int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), size)
}
