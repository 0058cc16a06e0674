package ibv

import "github.com/pureverbs/pureverbs/internal/flags"

// enumString looks v up in names, where an empty name is a gap.
func enumString(typ string, v int64, names []string) string { return flags.Name(typ, v, names) }

var opcodeNames = []string{"Write", "WriteImm", "Send", "SendImm", "Read", "CompareSwap", "FetchAdd", "LocalInv",
	"BindMW", "SendInv",
	"TSO", "Driver1", 14: "Flush", 15: "AtomicWrite", 16: "RawWQE", 17: "Memcpy",
	18: "MaskedCompareSwap", 19: "MaskedFetchAdd"}

// String returns the name, as in "WriteImm".
func (o Opcode) String() string { return enumString("Opcode", int64(o), opcodeNames) }
