//go:build linux

package guest

import "unsafe"

// addr is where a program has b. The test keeps b where it is.
func addr(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
