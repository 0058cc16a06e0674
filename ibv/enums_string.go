package ibv

import (
	"github.com/pureverbs/pureverbs/internal/flags"
	"github.com/pureverbs/pureverbs/internal/work"
)

// enumString looks v up in names, where an empty name is a gap.
func enumString(typ string, v int64, names []string) string { return flags.Name(typ, v, names) }

var opcodeNames = func() (names []string) {
	for i := range work.Kinds {
		names = append(names, work.Kinds[i].Name)
	}
	return names
}()

// String returns the name, as in "WriteImm".
func (o Opcode) String() string { return enumString("Opcode", int64(o), opcodeNames) }
