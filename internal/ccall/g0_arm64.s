//go:build linux && go1.25 && !go1.28

#include "textflag.h"

// func Hot(fn, a1, a2, a3 uintptr) uintptr
//
// R19 is callee-saved in C, and so is R28, which is g. The assembler marks the
// function SPWRITE, where the unwinder stops.
TEXT ·Hot(SB), NOSPLIT, $48-40
	MOVBU ·useG0(SB), R8
	MOVD  fn+0(FP), R9
	MOVD  a1+8(FP), R0
	MOVD  a2+16(FP), R1
	MOVD  a3+24(FP), R2
	CBZ   R8, slow
	MOVD  48(g), R10   // g.m
	MOVD  0(R10), R10  // m.g0
	MOVD  RSP, R19
	MOVD  56(R10), R11 // g0.sched.sp
	BIC   $15, R11
	MOVD  R11, RSP
	CALL  (R9)
	MOVD  R19, RSP
	MOVD  R0, ret+32(FP)
	RET

slow:
	MOVD R9, 8(RSP)
	MOVD R0, 16(RSP)
	MOVD R1, 24(RSP)
	MOVD R2, 32(RSP)
	CALL ·Slow(SB)
	MOVD 40(RSP), R0
	MOVD R0, ret+32(FP)
	RET

// func getg() (gp, sp uintptr)
TEXT ·getg(SB), NOSPLIT, $0-16
	MOVD g, gp+0(FP)
	MOVD RSP, R0
	MOVD R0, sp+8(FP)
	RET
