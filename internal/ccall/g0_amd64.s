//go:build !pureverbs_native && linux && go1.25 && !go1.28

#include "go_asm.h"
#include "textflag.h"

// func Hot(fn, a1, a2, a3 uintptr) uintptr
//
// BX, R12 and R13 are callee-saved in C. The assembler marks the function
// SPWRITE, where the unwinder stops; it must not be on the stack while others run,
// hence the jump to Slow and no frame. While C runs TLS says g0, so that a crash
// there is reported as one in C.
TEXT ·Hot(SB), NOSPLIT|NOFRAME, $0-40
	CMPB ·useG0(SB), $0
	JEQ  slow
	MOVQ TLS, CX
	MOVQ 0(CX)(TLS*1), BX // g
	MOVQ fn+0(FP), AX
	MOVQ a1+8(FP), DI
	MOVQ a2+16(FP), SI
	MOVQ a3+24(FP), DX
	MOVQ 48(BX), R13 // g.m
	MOVQ 0(R13), R13 // m.g0
	MOVQ SP, R12
	MOVQ R13, 0(CX)(TLS*1)
	MOVQ 56(R13), SP // g0.sched.sp
	ANDQ $~15, SP
	CALL AX
	MOVQ R12, SP
	MOVQ TLS, CX
	MOVQ BX, 0(CX)(TLS*1)
	MOVQ AX, ret+32(FP)
	RET

slow:
	JMP ·Slow(SB)

// func Hot6(fn, a1, a2, a3, a4, a5, a6 uintptr) uintptr
//
// As Hot, which keeps to three arguments because it is the faster for it.
TEXT ·Hot6(SB), NOSPLIT|NOFRAME, $0-64
	CMPB ·useG0(SB), $0
	JEQ  slow
	MOVQ TLS, R10
	MOVQ 0(R10)(TLS*1), BX // g
	MOVQ fn+0(FP), AX
	MOVQ a1+8(FP), DI
	MOVQ a2+16(FP), SI
	MOVQ a3+24(FP), DX
	MOVQ a4+32(FP), CX
	MOVQ a5+40(FP), R8
	MOVQ a6+48(FP), R9
	MOVQ 48(BX), R13 // g.m
	MOVQ 0(R13), R13 // m.g0
	MOVQ SP, R12
	MOVQ R13, 0(R10)(TLS*1)
	MOVQ 56(R13), SP // g0.sched.sp
	ANDQ $~15, SP
	CALL AX
	MOVQ R12, SP
	MOVQ TLS, CX
	MOVQ BX, 0(CX)(TLS*1)
	MOVQ AX, ret+56(FP)
	RET

slow:
	JMP ·Slow6(SB)

// func Do(c *Call) uintptr
//
// As Hot.
TEXT ·Do(SB), NOSPLIT|NOFRAME, $0-16
	CMPB ·useG0(SB), $0
	JEQ  slow
	MOVQ c+0(FP), R8
	MOVQ TLS, CX
	MOVQ 0(CX)(TLS*1), BX // g
	MOVQ Call_A1(R8), DI
	MOVQ Call_A2(R8), SI
	MOVQ Call_A3(R8), DX
	MOVQ 48(BX), R13 // g.m
	MOVQ 0(R13), R13 // m.g0
	MOVQ SP, R12
	MOVQ R13, 0(CX)(TLS*1)
	MOVQ 56(R13), SP // g0.sched.sp
	ANDQ $~15, SP
	CALL Call_Fn(R8)
	MOVQ R12, SP
	MOVQ TLS, CX
	MOVQ BX, 0(CX)(TLS*1)
	MOVQ AX, ret+8(FP)
	RET

slow:
	JMP ·slowDo(SB)

// func getg() (gp, sp uintptr)
TEXT ·getg(SB), NOSPLIT, $0-16
	MOVQ TLS, CX
	MOVQ 0(CX)(TLS*1), AX
	MOVQ AX, gp+0(FP)
	MOVQ SP, sp+8(FP)
	RET
