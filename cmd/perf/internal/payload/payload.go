package payload

import (
	"bytes"
	"fmt"
)

// The payload is a pattern of prime length without a zero, so that a byte which is missing,
// misplaced or of another queue pair does not look right.
const patternLen = 251

func pattern(qp int) []byte {
	p := make([]byte, patternLen)
	for i := range p {
		p[i] = byte(1 + (i*7+qp*31)%patternLen)
	}
	return p
}

// Fill writes the payload of a queue pair.
func Fill(mem []byte, qp int) {
	n := copy(mem, pattern(qp))
	for n < len(mem) {
		// Whole repetitions of the pattern, doubling.
		n += copy(mem[n:], mem[:n/patternLen*patternLen])
	}
}

// Check compares what n messages of a size must have left in mem. skip is a byte that means something else, or -1.
func Check(mem []byte, qp int, size, cycle, line, n uint64, skip int) error {
	w := NewWalker(size, cycle, line)
	want := make([]byte, len(mem))
	Fill(want, qp)
	for range min(n, w.Places()) {
		off := w.Next()
		got, exp := mem[off:off+size], want[off:off+size]
		if bytes.Equal(got, exp) {
			continue
		}
		for i := range got {
			if got[i] != exp[i] && int(off)+i != skip {
				return fmt.Errorf("payload of queue pair %d is wrong: byte %d is %#02x, sent was %#02x", qp,
					int(off)+i, got[i], exp[i])
			}
		}
	}
	return nil
}
