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
	Window                            // a memory window, and what it is bound to
	Flush                             // a range to flush
	Value                             // 8 bytes to write at once
	TSO                               // a header, and the size of a segment
	Masked                            // the operands of an atomic with masks
	MkeyChange                        // what a memory key becomes
	WholeWQE                          // the WQE itself
	Copy                              // two pieces of registered memory; one is copied to the other
)

// Atomic is a field that all atomics use and no other opcode does.
const Atomic = CompareAdd

// opcodes holds the fields that each opcode uses, the types of queue pair that take it, and the flag by which a queue
// pair is asked for the function that posts it.
var opcodes = [32]struct {
	fields Fields
	types  uint32
	sendOp uint64
}{
	abi.IBV_WR_RDMA_WRITE: {Data | Inline | Remote, rc | uc | srd, abi.IBV_QP_EX_WITH_RDMA_WRITE},
	abi.IBV_WR_RDMA_WRITE_WITH_IMM: {Data | Inline | Remote | Imm, rc | uc | srd,
		abi.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM},
	abi.IBV_WR_SEND:                 {Data | Inline, rc | uc | ud | srd | raw, abi.IBV_QP_EX_WITH_SEND},
	abi.IBV_WR_SEND_WITH_IMM:        {Data | Inline | Imm, rc | uc | ud | srd, abi.IBV_QP_EX_WITH_SEND_WITH_IMM},
	abi.IBV_WR_SEND_WITH_INV:        {Data | Inline | InvalidateRKey, rc, abi.IBV_QP_EX_WITH_SEND_WITH_INV},
	abi.IBV_WR_RDMA_READ:            {Data | Remote, rc | srd, abi.IBV_QP_EX_WITH_RDMA_READ},
	abi.IBV_WR_ATOMIC_CMP_AND_SWP:   {Data | Remote | CompareAdd | Swap, rc, abi.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP},
	abi.IBV_WR_ATOMIC_FETCH_AND_ADD: {Data | Remote | CompareAdd, rc, abi.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD},
	abi.IBV_WR_LOCAL_INV:            {InvalidateRKey, rc | uc, abi.IBV_QP_EX_WITH_LOCAL_INV},
	abi.IBV_WR_BIND_MW:              {Window, (rc | uc) &^ (1 << DCI), abi.IBV_QP_EX_WITH_BIND_MW},
	abi.IBV_WR_FLUSH:                {Remote | Flush, onlyRC, abi.IBV_QP_EX_WITH_FLUSH},
	abi.IBV_WR_ATOMIC_WRITE:         {Remote | Value, onlyRC, abi.IBV_QP_EX_WITH_ATOMIC_WRITE},
	abi.IBV_WR_TSO:                  {Data | TSO, raw, abi.IBV_QP_EX_WITH_TSO},

	Mkey:              {MkeyChange, onlyRC, 0},
	RawWQE:            {WholeWQE, rc | uc | ud | raw, 0},
	Memcpy:            {Copy, onlyRC | 1<<DCI, 0},
	MaskedCompareSwap: {Data | Remote | Masked, rc, 0},
	MaskedFetchAdd:    {Data | Remote | Masked, rc, 0},
}

// Opcodes of mlx5; verbs.h knows the first as one of the driver's. The others have numbers of this module.
const (
	Mkey              = abi.IBV_WR_DRIVER1
	RawWQE            = 16
	Memcpy            = 17
	MaskedCompareSwap = 18
	MaskedFetchAdd    = 19
)

// MaskedAtomics is the set of atomics with masks, as bits 1<<opcode.
const MaskedAtomics = 1<<MaskedCompareSwap | 1<<MaskedFetchAdd

// mlx5Only is the set of opcodes that a queue pair of verbs does not take.
const mlx5Only = 1<<Mkey | 1<<RawWQE | 1<<Memcpy | MaskedAtomics

const (
	onlyRC = 1 << abi.IBV_QPT_RC

	rc  = 1<<abi.IBV_QPT_RC | 1<<abi.IBV_QPT_XRC_SEND | 1<<DCI
	uc  = 1 << abi.IBV_QPT_UC
	ud  = 1 << abi.IBV_QPT_UD
	raw = 1 << abi.IBV_QPT_RAW_PACKET
	srd = 1 << SRD
)

// SRD means EFA's scalable reliable datagrams, which C also calls a driver's own type.
const SRD = 30

// DCI means the sending side of mlx5's dynamically connected transport, which C calls a driver's own type.
const DCI = 31

// FieldsOf returns the fields that an opcode uses, 0 for an unknown opcode.
func FieldsOf(opcode uint32) Fields {
	if opcode >= uint32(len(opcodes)) {
		return 0
	}
	return opcodes[opcode].fields
}

// OpcodesOf returns the opcodes that a type of queue pair takes, as a set of bits 1<<opcode.
func OpcodesOf(qpType uint32) (set uint32) { return takes(qpType) &^ mlx5Only }

// MLX5OpcodesOf returns those that only mlx5 has.
func MLX5OpcodesOf(qpType uint32) (set uint32) { return takes(qpType) & mlx5Only }

func takes(qpType uint32) (set uint32) {
	for op := range opcodes {
		if qpType < 32 && opcodes[op].types>>qpType&1 != 0 {
			set |= 1 << op
		}
	}
	return set
}

// SendOpsOf returns the opcodes that a set of IBV_QP_EX_WITH flags names, as a set of bits 1<<opcode.
func SendOpsOf(flags uint64) (set uint32) {
	for op := range opcodes {
		if opcodes[op].sendOp&flags != 0 {
			set |= 1 << op
		}
	}
	return set
}

// SendFlagsOf is the inverse of SendOpsOf.
func SendFlagsOf(set uint32) (flags uint64) {
	for op := range opcodes {
		if set>>op&1 != 0 {
			flags |= opcodes[op].sendOp
		}
	}
	return flags
}

// ExtendedOnly is the set of opcodes that struct ibv_send_wr has no room for, as bits 1<<opcode.
const ExtendedOnly = 1<<abi.IBV_WR_FLUSH | 1<<abi.IBV_WR_ATOMIC_WRITE
