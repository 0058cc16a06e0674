package mlx5

import (
	"math/bits"
	"unsafe"
)

// Offsets in a CQE. C: struct mlx5_err_cqe, struct mlx5_cqe64 (rdma-core v44.0, providers/mlx5/mlx5dv.h:1109 and 1127).
const (
	offMLPath    = 17
	offFlagsRQPN = 24
	offVLAN      = 30
	offImm       = 36
	offByteCnt   = 44
	offTimestamp = 48
	offVendor    = 54
	offSyndrome  = 55
	offTail      = 56 // opcode and QPN, WQE counter, signature, op_own
	offOpOwn     = 63 // opcode, format, owner
)

func get32(p unsafe.Pointer, off uintptr) uint32 {
	return bits.ReverseBytes32(*(*uint32)(unsafe.Add(p, off)))
}

func get64(p unsafe.Pointer, off uintptr) uint64 {
	return bits.ReverseBytes64(*(*uint64)(unsafe.Add(p, off)))
}

// The reasons of a CQEError, which follow the word "names".
const (
	noQP      = "a QP that is not there"
	noSend    = "a send WQE that is not posted"
	noSendOp  = "a send WQE of an opcode that is not posted here"
	noRecv    = "a receive WQE that is not posted"
	noFailed  = "a WQE that is not posted, in error"
	noPayload = "a payload that it cannot carry"
	noOpcode  = "an opcode that this CQ was not made for"
	noBlock   = "as many completions as no block has; close the cq as well"
	noSigErr  = "a wrong signature, of which only libmlx5 can tell: use the mkey on QPs made with DataPathOps"
)

// received holds the verbs opcode and flags of a receive's completion by the CQE's opcode, and the masks that put the
// immediate field into the words of a WC.
var received = [8]struct {
	opcode, flags uint32
	imm, inv      uint64
}{
	cqeRespSend:    {opcode: wcRecv},
	cqeRespSendImm: {opcode: wcRecv, flags: wcWithImm, imm: 1<<32 - 1},
	cqeRespSendInv: {opcode: wcRecv, flags: wcWithInv, inv: (1<<32 - 1) << 32},
	cqeRespWrImm:   {opcode: wcRecvImm, flags: wcWithImm, imm: 1<<32 - 1},
}

// Poll writes a WC as eight words, which takes fewer stores. All processors that this package supports are
// little-endian.
var (
	_ [0]byte = [unsafe.Sizeof(WC{}) - 64]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.Opcode) - 12]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.ByteLen) - 20]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.InvalidatedRKey) - 28]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.SrcQPN) - 36]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.Flags) - 40]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.PKeyIndex) - 44]byte{}
	_ [0]byte = [unsafe.Offsetof(WC{}.SL) - 48]byte{}
)
