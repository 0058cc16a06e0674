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

// Grant is a set of reasons for which a queue pair takes an opcode. Each opcode has one.
type Grant uint8

// The reasons.
const (
	ByType      Grant = 1 << iota // the type of the queue pair
	ByAtomics                     // likewise, on a device with atomics
	BySendOps                     // only the options that name it: struct ibv_send_wr has no room for it
	ByDriverOps                   // only the options of mlx5 that name it
	ByMasks                       // the direct data path, or MLNX_OFED 4 with room for such atomics
)

// SendWR is a work request for a send queue. The type that users fill has this layout.
type SendWR struct {
	ID             uint64
	Opcode         uint32
	Flags          uint32
	SGEs           []SGE
	Inline         []byte
	Remote         RemoteAddr
	Imm            uint32
	InvalidateRKey uint32
	CompareAdd     uint64
	Swap           uint64
	AH             *Theirs // engines get its C object or its address vector instead
	RemoteQPN      uint32
	RemoteQKey     uint32
	RemoteSRQN     uint32 // XRC_SEND
	DCStream       uint16
	DCKey          uint64
	Bind           *Theirs // engines get a Bind instead
	Flush          *FlushRange
	TSO            *TSOHeader
	Masked         *MaskedAtomic
	Mkey           *Theirs // engines get a MkeyUpdate instead
}

// ImmOrKey returns the 32 bits that travel with a message: the immediate data, or the key to invalidate.
func (w *SendWR) ImmOrKey(f Fields) uint32 {
	switch {
	case f&Imm != 0:
		return w.Imm
	case f&InvalidateRKey != 0:
		return w.InvalidateRKey
	}
	return 0
}

// Theirs is an object of package ibv.
type Theirs struct{ _ byte }

// Kind is a kind of work request: what the library knows of an opcode, but for the format of its own fields.
type Kind struct {
	Name   string // that package ibv gives it, without "Op"
	C      string // "" if C has none
	Fields Fields
	Types  uint32 // types of queue pair, as bits 1<<IBV_QPT_*
	By     Grant
	SendOp uint64 // flag by which a queue pair is asked for the function that posts it; 0 for none

	Device     uint8 // opcode of its WQE
	Completion uint8 // IBV_WC_*, of mlx5's completion
	WQE        string
}

// Kinds holds each kind by its opcode.
var Kinds = [32]Kind{
	abi.IBV_WR_RDMA_WRITE: {"Write", "IBV_WR_RDMA_WRITE", Data | Inline | Remote, rc | uc | srd,
		ByType, abi.IBV_QP_EX_WITH_RDMA_WRITE, WQEWrite, abi.IBV_WC_RDMA_WRITE, "Write"},
	abi.IBV_WR_RDMA_WRITE_WITH_IMM: {"WriteImm", "IBV_WR_RDMA_WRITE_WITH_IMM", Data | Inline | Remote | Imm,
		rc | uc | srd, ByType, abi.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, WQEWriteImm, abi.IBV_WC_RDMA_WRITE, "WriteImm"},
	abi.IBV_WR_SEND: {"Send", "IBV_WR_SEND", Data | Inline, rc | uc | ud | srd | raw,
		ByType, abi.IBV_QP_EX_WITH_SEND, WQESend, abi.IBV_WC_SEND, "Send"},
	abi.IBV_WR_SEND_WITH_IMM: {"SendImm", "IBV_WR_SEND_WITH_IMM", Data | Inline | Imm, rc | uc | ud | srd,
		ByType, abi.IBV_QP_EX_WITH_SEND_WITH_IMM, WQESendImm, abi.IBV_WC_SEND, "SendImm"},
	abi.IBV_WR_SEND_WITH_INV: {"SendInv", "IBV_WR_SEND_WITH_INV", Data | Inline | InvalidateRKey, rc,
		ByType, abi.IBV_QP_EX_WITH_SEND_WITH_INV, WQESendInv, abi.IBV_WC_SEND, "SendInv"},
	abi.IBV_WR_RDMA_READ: {"Read", "IBV_WR_RDMA_READ", Data | Remote, rc | srd,
		ByType, abi.IBV_QP_EX_WITH_RDMA_READ, WQERead, abi.IBV_WC_RDMA_READ, "Read"},
	abi.IBV_WR_ATOMIC_CMP_AND_SWP: {"CompareSwap", "IBV_WR_ATOMIC_CMP_AND_SWP", Data | Remote | CompareAdd | Swap, rc,
		ByAtomics, abi.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, WQECompareSwap, abi.IBV_WC_COMP_SWAP, "CompareSwap"},
	abi.IBV_WR_ATOMIC_FETCH_AND_ADD: {"FetchAdd", "IBV_WR_ATOMIC_FETCH_AND_ADD", Data | Remote | CompareAdd, rc,
		ByAtomics, abi.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, WQEFetchAdd, abi.IBV_WC_FETCH_ADD, "FetchAdd"},
	abi.IBV_WR_LOCAL_INV: {"LocalInv", "IBV_WR_LOCAL_INV", InvalidateRKey, rc | uc,
		ByType, abi.IBV_QP_EX_WITH_LOCAL_INV, WQEUMR, abi.IBV_WC_LOCAL_INV, "UMR"},
	abi.IBV_WR_BIND_MW: {"BindMW", "IBV_WR_BIND_MW", Window, (rc | uc) &^ (1 << DCI),
		ByType, abi.IBV_QP_EX_WITH_BIND_MW, WQEUMR, abi.IBV_WC_BIND_MW, "UMR"},
	abi.IBV_WR_TSO: {"TSO", "IBV_WR_TSO", Data | TSO, raw,
		ByType, abi.IBV_QP_EX_WITH_TSO, WQETSO, abi.IBV_WC_TSO, "TSO"},
	abi.IBV_WR_FLUSH: {"Flush", "IBV_WR_FLUSH", Remote | Flush, onlyRC,
		BySendOps, abi.IBV_QP_EX_WITH_FLUSH, 0, 0, ""},
	abi.IBV_WR_ATOMIC_WRITE: {"AtomicWrite", "IBV_WR_ATOMIC_WRITE", Remote | Value, onlyRC,
		BySendOps, abi.IBV_QP_EX_WITH_ATOMIC_WRITE, 0, 0, ""},

	Mkey: {"Driver1", "IBV_WR_DRIVER1", MkeyChange, onlyRC,
		ByDriverOps, 0, WQEUMR, abi.MLX5DV_WC_UMR, "UMR"},
	RawWQE: {"RawWQE", "", WholeWQE, rc | uc | ud | raw,
		ByDriverOps, 0, 0, 0, ""},
	Memcpy: {"Memcpy", "", Copy, onlyRC | 1<<DCI,
		ByDriverOps, 0, WQEMemcpy, abi.MLX5DV_WC_MEMCPY, ""},
	MaskedCompareSwap: {"MaskedCompareSwap", "IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP", Data | Remote | Masked, rc,
		ByMasks, 0, WQEMaskedCompareSwap, abi.IBV_WC_COMP_SWAP, ""},
	MaskedFetchAdd: {"MaskedFetchAdd", "IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD", Data | Remote | Masked, rc,
		ByMasks, 0, WQEMaskedFetchAdd, abi.IBV_WC_FETCH_ADD, ""},
}

// Opcodes of mlx5; verbs.h knows the first as one of the driver's. The others have numbers of this module.
const (
	Mkey              = abi.IBV_WR_DRIVER1
	RawWQE            = 16
	Memcpy            = 17
	MaskedCompareSwap = 18
	MaskedFetchAdd    = 19
)

// Opcodes of mlx5's WQEs. C: MLX5_OPCODE_* (rdma-core v44.0, providers/mlx5/mlx5dv.h:1022).
const (
	WQESendInv           = 0x01
	WQEWrite             = 0x08
	WQEWriteImm          = 0x09
	WQESend              = 0x0a
	WQESendImm           = 0x0b
	WQETSO               = 0x0e
	WQERead              = 0x10
	WQECompareSwap       = 0x11
	WQEFetchAdd          = 0x12
	WQEMaskedCompareSwap = 0x14
	WQEMaskedFetchAdd    = 0x15
	WQEUMR               = 0x25
	WQEMemcpy            = 0x2f // C: MLX5_OPCODE_MMO
)

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

// fields has those of Kinds alone: 128 bytes, for the hot path.
var fields = func() (f [len(Kinds)]Fields) {
	for op := range Kinds {
		f[op] = Kinds[op].Fields
	}
	return f
}()

// FieldsOf returns the fields that an opcode uses, 0 for an unknown opcode.
func FieldsOf(opcode uint32) Fields {
	if opcode >= uint32(len(fields)) {
		return 0
	}
	return fields[opcode]
}

// OpcodesOf returns the opcodes that a type of queue pair takes if it is of verbs, as a set of bits 1<<opcode.
func OpcodesOf(qpType uint32) uint32 { return GrantedTo(qpType, ByType|ByAtomics|BySendOps) }

// GrantedTo returns the opcodes that a type of queue pair takes for one of the reasons by.
func GrantedTo(qpType uint32, by Grant) uint32 {
	return set(func(k *Kind) bool { return qpType < 32 && k.Types>>qpType&1 != 0 && k.By&by != 0 })
}

// Granted returns the opcodes that some queue pair takes for one of the reasons by.
func Granted(by Grant) uint32 { return set(func(k *Kind) bool { return k.By&by != 0 }) }

// WithFields returns the opcodes that use one of these fields.
func WithFields(f Fields) uint32 { return set(func(k *Kind) bool { return k.Fields&f != 0 }) }

// SendOpsOf returns the opcodes that a set of IBV_QP_EX_WITH flags names.
func SendOpsOf(flags uint64) uint32 { return set(func(k *Kind) bool { return k.SendOp&flags != 0 }) }

func set(is func(*Kind) bool) (set uint32) {
	for op := range Kinds {
		if is(&Kinds[op]) {
			set |= 1 << op
		}
	}
	return set
}

// SendFlagsOf is the inverse of SendOpsOf.
func SendFlagsOf(set uint32) (flags uint64) {
	for op := range Kinds {
		if set>>op&1 != 0 {
			flags |= Kinds[op].SendOp
		}
	}
	return flags
}
