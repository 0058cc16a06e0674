package mlx5

import "github.com/pureverbs/pureverbs/internal/work"

// Opcodes of send WQEs that the code refers to by name. Package work has the others. C: MLX5_OPCODE_* (rdma-core v44.0,
// providers/mlx5/mlx5dv.h:1022).
const (
	opNop      = 0x00
	opAtomicCS = work.WQECompareSwap
	opAtomicFA = work.WQEFetchAdd
	opMaskedCS = work.WQEMaskedCompareSwap
	opMaskedFA = work.WQEMaskedFetchAdd
	opSetPSV   = 0x20
	opUMR      = work.WQEUMR

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

// sendOps holds, by verbs opcode, what a WQE needs of package work's table.
var sendOps = func() (ops [len(work.Kinds)]struct {
	device uint8
	fields work.Fields
}) {
	for op := range work.Kinds {
		if k := &work.Kinds[op]; k.Device != opNop {
			ops[op].device, ops[op].fields = k.Device, k.Fields
		}
	}
	return ops
}()

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
