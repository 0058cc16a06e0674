//go:build linux

package engine

import "unsafe"

// words is a doorbell page as the programs' stores reach it: one atomic word each.
func words(page []byte) *[512]uint64 {
	return (*[512]uint64)(unsafe.Pointer(unsafe.SliceData(page)))
}
