// Package flags names the bits of a mask, and the values of an enum.
package flags

import (
	"strconv"
	"strings"
)

// String joins the names of the set bits with "|"; names[i] is that of bit i. Bits without a name come last, as one
// number; no bits at all are "0".
func String[T ~uint8 | ~uint16 | ~uint32 | ~uint64](v T, names []string) string {
	if v == 0 {
		return "0"
	}
	var parts []string
	for i, name := range names {
		if bit := T(1) << i; v&bit != 0 && name != "" {
			parts = append(parts, name)
			v &^= bit
		}
	}
	if v != 0 {
		parts = append(parts, "0x"+strconv.FormatUint(uint64(v), 16))
	}
	return strings.Join(parts, "|")
}

// Name returns names[v]. A value without a name is a number, as in QPState(17).
func Name(typ string, v int64, names []string) string {
	if v >= 0 && v < int64(len(names)) && names[v] != "" {
		return names[v]
	}
	return typ + "(" + strconv.FormatInt(v, 10) + ")"
}
