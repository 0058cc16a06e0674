//go:build !pureverbs_native && linux && go1.25 && !go1.28

#include "go_asm.h"
#include "textflag.h"

// func Hot(fn, a1, a2, a3 uintptr) uintptr
//
// R19 and R20 are callee-saved in C, and so is R28, which is g. The assembler marks
// the function SPWRITE, where the unwinder stops; it must not be on the stack while
// others run, hence the jump to Slow and no frame.
TEXT ·Hot(SB), NOSPLIT|NOFRAME, $0-40
	MOVBU ·useG0(SB), R8
	CBZ   R8, slow
	MOVD  fn+0(FP), R9
	MOVD  a1+8(FP), R0
	MOVD  a2+16(FP), R1
	MOVD  a3+24(FP), R2
	MOVD  48(g), R10   // g.m
	MOVD  0(R10), R10  // m.g0
	MOVD  RSP, R19
	MOVD  R30, R20
	MOVD  56(R10), R11 // g0.sched.sp
	BIC   $15, R11
	MOVD  R11, RSP
	CALL  (R9)
	MOVD  R19, RSP
	MOVD  R20, R30
	MOVD  R0, ret+32(FP)
	RET

slow:
	JMP ·Slow(SB)

// func Hot6(fn, a1, a2, a3, a4, a5, a6 uintptr) uintptr
//
// As Hot.
TEXT ·Hot6(SB), NOSPLIT|NOFRAME, $0-64
	MOVBU ·useG0(SB), R8
	CBZ   R8, slow
	MOVD  fn+0(FP), R9
	MOVD  a1+8(FP), R0
	MOVD  a2+16(FP), R1
	MOVD  a3+24(FP), R2
	MOVD  a4+32(FP), R3
	MOVD  a5+40(FP), R4
	MOVD  a6+48(FP), R5
	MOVD  48(g), R10   // g.m
	MOVD  0(R10), R10  // m.g0
	MOVD  RSP, R19
	MOVD  R30, R20
	MOVD  56(R10), R11 // g0.sched.sp
	BIC   $15, R11
	MOVD  R11, RSP
	CALL  (R9)
	MOVD  R19, RSP
	MOVD  R20, R30
	MOVD  R0, ret+56(FP)
	RET

slow:
	JMP ·Slow6(SB)

// func Do(c *Call) uintptr
//
// As Hot.
TEXT ·Do(SB), NOSPLIT|NOFRAME, $0-16
	MOVBU ·useG0(SB), R8
	CBZ   R8, slow
	MOVD  c+0(FP), R8
	MOVD  Call_Fn(R8), R9
	MOVD  Call_A1(R8), R0
	MOVD  Call_A2(R8), R1
	MOVD  Call_A3(R8), R2
	MOVD  48(g), R10   // g.m
	MOVD  0(R10), R10  // m.g0
	MOVD  RSP, R19
	MOVD  R30, R20
	MOVD  56(R10), R11 // g0.sched.sp
	BIC   $15, R11
	MOVD  R11, RSP
	CALL  (R9)
	MOVD  R19, RSP
	MOVD  R20, R30
	MOVD  R0, ret+8(FP)
	RET

slow:
	JMP ·slowDo(SB)

// func getg() (gp, sp uintptr)
TEXT ·getg(SB), NOSPLIT, $0-16
	MOVD g, gp+0(FP)
	MOVD RSP, R0
	MOVD R0, sp+8(FP)
	RET
