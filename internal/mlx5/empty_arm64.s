#include "go_asm.h"
#include "textflag.h"

// func empty(cq *CQ) bool
TEXT ·empty(SB), NOSPLIT, $0-9
	MOVD	cq+0(FP), R0
	MOVB	ZR, ret+8(FP)
	MOVD	CQ_ring(R0), R1
	CBZ	R1, out
	MOVWU	CQ_ci(R0), R2
	MOVWU	CQ_mask(R0), R3
	ANDW	R2, R3, R3
	MOVD	CQ_stride(R0), R4
	MUL	R4, R3, R3
	ADD	R1, R3, R3
	MOVBU	63(R3), R5	// op_own
	MOVBU	CQ_log(R0), R4
	LSRW	R4, R2, R6
	EORW	R5, R6, R6
	TBNZ	$0, R6, still	// another lap's: not written yet
	CMPW	$0xf0, R5	// MLX5_CQE_INVALID: never written
	BLO	out
still:
	DMB	$1	// OSHLD, because the device writes the entry: ci and ring are read again after it
	MOVWU	CQ_ci(R0), R3
	CMPW	R2, R3
	BNE	out
	MOVD	CQ_ring(R0), R3
	CMP	R1, R3
	BNE	out
	MOVD	$1, R3
	MOVB	R3, ret+8(FP)
out:
	RET
