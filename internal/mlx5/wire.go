package mlx5

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/work"
)

// Opcodes of send WQEs. C: MLX5_OPCODE_* (rdma-core v44.0, providers/mlx5/mlx5dv.h:1022).
const (
	opNop      = 0x00
	opSendInv  = 0x01
	opWrite    = 0x08
	opWriteImm = 0x09
	opSend     = 0x0a
	opSendImm  = 0x0b
	opTSO      = 0x0e
	opRead     = 0x10
	opAtomicCS = 0x11
	opAtomicFA = 0x12
	opMaskedCS = 0x14
	opMaskedFA = 0x15
	opSetPSV   = 0x20
	opUMR      = 0x25
	opMMO      = 0x2f

	mmoDMA    = 1 // in the opcode's modifier. C: MLX5_OPC_MOD_MMO_DMA (rdma-core v44.0, providers/mlx5/wqe.h)
	extAtomic = 8 // in the opcode's modifier, with the size. C: MLX5_OPCODE_EXT_ATOMICS of MLNX_OFED 4.9's libmlx5
)

// Opcodes of CQEs. C: MLX5_CQE_* (rdma-core v44.0, providers/mlx5/mlx5dv.h:1087).
const (
	cqeReq         = 0
	cqeRespWrImm   = 1
	cqeRespSend    = 2
	cqeRespSendImm = 3
	cqeRespSendInv = 4
	cqeResize      = 5
	cqeSigErr      = 12
	cqeReqErr      = 13
	cqeRespErr     = 14
	cqeInvalid     = 15
)

const (
	blockShift = 6 // a send WQE is made of 64-byte blocks
	blockSize  = 1 << blockShift
	segSize    = 16

	maxDS  = 63 // maximum of segments in a WQE: the field has six bits
	avSize = 48 // an address vector. C: struct mlx5_wqe_av

	invalidLKey = 0x100 // ends a receive list. C: MLX5_INVALID_LKEY
	inlineSeg   = 1 << 31
	extendedAV  = 1 << 31 // in dqp_dct. C: MLX5_EXTENDED_UD_AV

	ctrlFence      = 4 << 5 // fm_ce_se. C: MLX5_WQE_CTRL_FENCE
	ctrlSmallFence = 1 << 5 // C: MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE
	ctrlCQUpdate   = 2 << 2
	ctrlSolicited  = 1 << 1

	scatter32 = 0x4 // in op_own: the payload is in the CQE
	scatter64 = 0x8

	armSolicited = 1 << 24 // C: MLX5_CQ_DB_REQ_NOT_SOL
	armOffset    = 0x20    // in the UAR page. C: MLX5_CQ_DOORBELL

	numberMask = 1<<24 - 1 // QPNs, consumer indices
)

// sendOps holds, by verbs opcode, the device's opcode and the opcode of the completion. The fields that an opcode uses
// come from package work.
var sendOps = [32]struct {
	device, completion uint8
	fields             work.Fields
}{
	abi.IBV_WR_RDMA_WRITE: {device: opWrite, completion: wcWrite,
		fields: work.FieldsOf(abi.IBV_WR_RDMA_WRITE)},
	abi.IBV_WR_RDMA_WRITE_WITH_IMM: {device: opWriteImm, completion: wcWrite,
		fields: work.FieldsOf(abi.IBV_WR_RDMA_WRITE_WITH_IMM)},
	abi.IBV_WR_SEND: {device: opSend, completion: wcSend, fields: work.FieldsOf(abi.IBV_WR_SEND)},
	abi.IBV_WR_SEND_WITH_IMM: {device: opSendImm, completion: wcSend,
		fields: work.FieldsOf(abi.IBV_WR_SEND_WITH_IMM)},
	abi.IBV_WR_SEND_WITH_INV: {device: opSendInv, completion: wcSend,
		fields: work.FieldsOf(abi.IBV_WR_SEND_WITH_INV)},
	abi.IBV_WR_RDMA_READ: {device: opRead, completion: wcRead, fields: work.FieldsOf(abi.IBV_WR_RDMA_READ)},
	abi.IBV_WR_ATOMIC_CMP_AND_SWP: {device: opAtomicCS, completion: wcCompareSwap,
		fields: work.FieldsOf(abi.IBV_WR_ATOMIC_CMP_AND_SWP)},
	abi.IBV_WR_ATOMIC_FETCH_AND_ADD: {device: opAtomicFA, completion: wcFetchAdd,
		fields: work.FieldsOf(abi.IBV_WR_ATOMIC_FETCH_AND_ADD)},
	abi.IBV_WR_LOCAL_INV: {device: opUMR, completion: wcLocalInv,
		fields: work.FieldsOf(abi.IBV_WR_LOCAL_INV)},
	abi.IBV_WR_BIND_MW: {device: opUMR, completion: wcBindMW, fields: work.FieldsOf(abi.IBV_WR_BIND_MW)},
	abi.IBV_WR_TSO:     {device: opTSO, completion: wcTSO, fields: work.FieldsOf(abi.IBV_WR_TSO)},
	work.Mkey:          {device: opUMR, completion: wcLocalInv, fields: work.FieldsOf(work.Mkey)},
	work.Memcpy:        {device: opMMO, completion: wcMemcpy, fields: work.FieldsOf(work.Memcpy)},
	work.MaskedCompareSwap: {device: opMaskedCS, completion: wcCompareSwap,
		fields: work.FieldsOf(work.MaskedCompareSwap)},
	work.MaskedFetchAdd: {device: opMaskedFA, completion: wcFetchAdd, fields: work.FieldsOf(work.MaskedFetchAdd)},
}

// Verbs send flags. C: enum ibv_send_flags.
const (
	sendFence     = 1 << 0
	sendSignaled  = 1 << 1
	sendSolicited = 1 << 2
	sendInline    = 1 << 3
	sendIPCsum    = 1 << 4
)

// ctrlFlags holds fm_ce_se by the send flags that affect it.
var ctrlFlags = [8]uint8{
	sendFence:                                ctrlFence,
	sendSignaled:                             ctrlCQUpdate,
	sendSignaled | sendFence:                 ctrlCQUpdate | ctrlFence,
	sendSolicited:                            ctrlSolicited,
	sendSolicited | sendFence:                ctrlSolicited | ctrlFence,
	sendSolicited | sendSignaled:             ctrlSolicited | ctrlCQUpdate,
	sendSolicited | sendSignaled | sendFence: ctrlSolicited | ctrlCQUpdate | ctrlFence,
}
