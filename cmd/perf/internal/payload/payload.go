package payload

import (
	"bytes"
	"fmt"
)

// The payload is a pattern of prime length without a zero, so that a byte which is missing,
// misplaced or of another queue pair does not look right.
const patternLen = 251

// Pattern returns the payload of a queue pair, unless there is another.
func Pattern(qp int) []byte {
	p := make([]byte, patternLen)
	for i := range p {
		p[i] = byte(1 + (i*7+qp*31)%patternLen)
	}
	return p
}

// Fill writes unit again and again.
// Preconditions: unit is not empty.
func Fill(mem, unit []byte) {
	n := copy(mem, unit)
	for n < len(mem) {
		// Whole repetitions, doubling.
		n += copy(mem[n:], mem[:n/len(unit)*len(unit)])
	}
}

// Check compares what n messages of a size must have left in mem with repetitions of unit. skip is a byte that means
// something else, or -1.
func Check(mem, unit []byte, size, cycle, line, n uint64, skip int) error {
	w := NewWalker(size, cycle, line)
	want := make([]byte, len(mem))
	Fill(want, unit)
	for range min(n, w.Places()) {
		off := w.Next()
		got, exp := mem[off:off+size], want[off:off+size]
		if bytes.Equal(got, exp) {
			continue
		}
		for i := range got {
			if got[i] != exp[i] && int(off)+i != skip {
				return fmt.Errorf("byte %d is %#02x, sent as %#02x", int(off)+i, got[i], exp[i])
			}
		}
	}
	return nil
}
