package work

import "github.com/pureverbs/pureverbs/internal/abi"

// Fields is the set of fields of a work request that an opcode uses.
type Fields uint32

// The fields.
const (
	Data           Fields = 1 << iota // a list of SGEs
	Inline                            // data may be copied into the work request, because it is sent and not received
	Remote                            // an address and a key of the peer
	Imm                               // immediate data
	InvalidateRKey                    // a key that becomes invalid
	CompareAdd                        // the operand to add or to compare with
	Swap                              // the operand to swap in
)

// Atomic is a field that all atomics use and no other opcode does.
const Atomic = CompareAdd

// opcodes holds the fields that each opcode uses, and the types of queue pair that take it.
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
	rc  = 1<<abi.IBV_QPT_RC | 1<<abi.IBV_QPT_XRC_SEND | 1<<DCI
	uc  = 1 << abi.IBV_QPT_UC
	ud  = 1 << abi.IBV_QPT_UD
	raw = 1 << abi.IBV_QPT_RAW_PACKET
)

// DCI stands for the sending side of mlx5's dynamically connected transport, which C calls a driver's own type.
const DCI = 31

// FieldsOf returns the fields that an opcode uses, 0 for an unknown opcode.
func FieldsOf(opcode uint32) Fields {
	if opcode >= uint32(len(opcodes)) {
		return 0
	}
	return opcodes[opcode].fields
}

// OpcodesOf returns the opcodes that a type of queue pair takes, as a set of bits 1<<opcode.
func OpcodesOf(qpType uint32) (set uint32) {
	for op := range opcodes {
		if qpType < 32 && opcodes[op].types>>qpType&1 != 0 {
			set |= 1 << op
		}
	}
	return set
}
