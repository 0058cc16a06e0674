package mlx5

// Opcodes of send WQEs. C: MLX5_OPCODE_*.
const (
	opNop      = 0x00
	opSendInv  = 0x01
	opWrite    = 0x08
	opWriteImm = 0x09
	opSend     = 0x0a
	opSendImm  = 0x0b
	opRead     = 0x10
	opAtomicCS = 0x11
	opAtomicFA = 0x12
	opUMR      = 0x25
)

// Opcodes of CQEs. C: MLX5_CQE_*.
const (
	cqeReq         = 0
	cqeRespWrImm   = 1
	cqeRespSend    = 2
	cqeRespSendImm = 3
	cqeRespSendInv = 4
	cqeReqErr      = 13
	cqeRespErr     = 14
	cqeInvalid     = 15
)

const (
	blockShift = 6 // a send WQE is made of 64-byte blocks
	blockSize  = 1 << blockShift
	segSize    = 16

	maxDS = 63 // segments in a WQE: the field has six bits

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

// sendOps translates a verbs opcode (IBV_WR_*) for the WQE.
var sendOps = [...]uint8{
	wrWrite: opWrite, wrWriteImm: opWriteImm, wrSend: opSend, wrSendImm: opSendImm,
	wrRead: opRead, wrCompareSwap: opAtomicCS, wrFetchAdd: opAtomicFA,
	wrLocalInv: opUMR, wrBindMW: opUMR, wrSendInv: opSendInv,
}

// Verbs opcodes. C: enum ibv_wr_opcode.
const (
	wrWrite = iota
	wrWriteImm
	wrSend
	wrSendImm
	wrRead
	wrCompareSwap
	wrFetchAdd
	wrLocalInv
	wrBindMW
	wrSendInv
)

// Verbs send flags. C: enum ibv_send_flags.
const (
	sendFence     = 1 << 0
	sendSignaled  = 1 << 1
	sendSolicited = 1 << 2
)

// ctrlFlags is fm_ce_se for the send flags that matter to it.
var ctrlFlags = [8]uint8{
	sendFence:                                ctrlFence,
	sendSignaled:                             ctrlCQUpdate,
	sendSignaled | sendFence:                 ctrlCQUpdate | ctrlFence,
	sendSolicited:                            ctrlSolicited,
	sendSolicited | sendFence:                ctrlSolicited | ctrlFence,
	sendSolicited | sendSignaled:             ctrlSolicited | ctrlCQUpdate,
	sendSolicited | sendSignaled | sendFence: ctrlSolicited | ctrlCQUpdate | ctrlFence,
}
