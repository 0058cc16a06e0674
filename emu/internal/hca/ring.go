//go:build linux

package hca

import "math/bits"

// Ring is a work queue in the program's memory. Its entries are the program's to write, and nobody's while the engine
// works on them.
type Ring struct {
	Base  uint64 // address of entry 0
	Count uint32 // entries, a power of two; SQ: in 64-byte basic blocks
	Shift uint32 // log2 of an entry's size
}

func roundUp(n uint32) uint32 { return 1 << bits.Len32(n-1) }
