#include "go_asm.h"
#include "textflag.h"

// func empty(cq *CQ) bool
TEXT ·empty(SB), NOSPLIT, $0-9
	MOVQ	cq+0(FP), AX
	MOVB	$0, ret+8(FP)
	MOVQ	CQ_ring(AX), BX
	TESTQ	BX, BX
	JEQ	out
	MOVL	CQ_ci(AX), DX
	MOVL	DX, SI
	ANDL	CQ_mask(AX), SI
	IMULQ	CQ_stride(AX), SI
	MOVBLZX	63(BX)(SI*1), DI	// op_own
	MOVBLZX	CQ_log(AX), CX
	MOVL	DX, R8
	SHRL	CX, R8
	XORL	DI, R8
	TESTL	$1, R8	// another lap's: not written yet
	JNE	still
	CMPL	DI, $0xf0	// MLX5_CQE_INVALID: never written
	JCS	out
still:
	CMPL	CQ_ci(AX), DX
	JNE	out
	CMPQ	CQ_ring(AX), BX
	JNE	out
	MOVB	$1, ret+8(FP)
out:
	RET
