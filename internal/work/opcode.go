package work

import "github.com/pureverbs/pureverbs/internal/abi"

// Fields is the set of fields of a work request that an opcode uses.
type Fields uint32

// The fields.
const (
	Data           Fields = 1 << iota // SGEs
	Inline                            // data may be copied into the work request: it is sent, not received
	Remote                            // an address and a key of the peer
	Imm                               // immediate data
	InvalidateRKey                    // a key that is no more valid afterwards
	CompareAdd                        // an operand of an atomic
	Swap                              // the other one
)

// Atomic is what all atomics use and no other opcode does.
const Atomic = CompareAdd

// opcodes says which fields each opcode uses, and which types of queue pair take it.
var opcodes = [32]struct {
	fields Fields
	types  uint32
}{
	abi.IBV_WR_RDMA_WRITE:           {Data | Inline | Remote, rc | uc},
	abi.IBV_WR_RDMA_WRITE_WITH_IMM:  {Data | Inline | Remote | Imm, rc | uc},
	abi.IBV_WR_SEND:                 {Data | Inline, rc | uc | ud | raw},
	abi.IBV_WR_SEND_WITH_IMM:        {Data | Inline | Imm, rc | uc | ud},
	abi.IBV_WR_SEND_WITH_INV:        {Data | Inline | InvalidateRKey, rc},
	abi.IBV_WR_RDMA_READ:            {Data | Remote, rc},
	abi.IBV_WR_ATOMIC_CMP_AND_SWP:   {Data | Remote | CompareAdd | Swap, rc},
	abi.IBV_WR_ATOMIC_FETCH_AND_ADD: {Data | Remote | CompareAdd, rc},
	abi.IBV_WR_LOCAL_INV:            {InvalidateRKey, rc | uc},
}

const (
	rc  = 1<<abi.IBV_QPT_RC | 1<<abi.IBV_QPT_XRC_SEND
	uc  = 1 << abi.IBV_QPT_UC
	ud  = 1 << abi.IBV_QPT_UD
	raw = 1 << abi.IBV_QPT_RAW_PACKET
)

// FieldsOf returns the fields that an opcode uses, 0 for one that nobody posts.
func FieldsOf(opcode uint32) Fields {
	if opcode >= uint32(len(opcodes)) {
		return 0
	}
	return opcodes[opcode].fields
}

// OpcodesOf returns the set of opcodes, 1<<IBV_WR_SEND and so on, that a type of queue pair takes.
func OpcodesOf(qpType uint32) (set uint32) {
	for op := range opcodes {
		if qpType < 32 && opcodes[op].types>>qpType&1 != 0 {
			set |= 1 << op
		}
	}
	return set
}
