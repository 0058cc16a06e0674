//go:build linux

package engine

import (
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/opcode"
)

// The opcodes of the format are those with a name, and each name leads back to its opcode.
func TestOpcodeNames(t *testing.T) {
	for op := range opcodes {
		name, named := opcode.Names[uint8(op)]
		if known := opcodes[op]&isKnown != 0; known != named {
			t.Errorf("opcode %#x: known %v, name %q", op, known, name)
		}
		if back, ok := opcode.Parse(name); ok != named || named && back != uint8(op) {
			t.Errorf("%q leads to %#x, want %#x", name, back, op)
		}
	}
}
