package ibv

// Opcodes of mlx5 for which enum ibv_wr_opcode has no number.
const (
	// OpRawWQE posts a WQE that the program wrote: package mlx5dv makes it. C: mlx5dv_wr_raw_wqe.
	OpRawWQE Opcode = 16
	// OpMemcpy has the device copy local memory: package mlx5dv makes it. C: mlx5dv_wr_memcpy.
	OpMemcpy Opcode = 17
	// OpMaskedCompareSwap and OpMaskedFetchAdd are atomics of 8 to 32 bytes: see MaskedAtomic.
	// C: IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP and _FETCH_AND_ADD of MLNX_OFED 4.
	OpMaskedCompareSwap Opcode = 18
	OpMaskedFetchAdd    Opcode = 19
)
