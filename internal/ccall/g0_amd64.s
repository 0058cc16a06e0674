//go:build linux && go1.25 && !go1.28

#include "textflag.h"

// func g0call(fn, a1, a2, a3 uintptr) uintptr
//
// R12 to R15 are callee-saved in C. The assembler marks the function SPWRITE,
// where the unwinder stops. While C runs TLS says g0, so that a crash there is
// reported as one in C.
TEXT ·g0call(SB), NOSPLIT, $0-40
	MOVQ fn+0(FP), AX
	MOVQ a1+8(FP), DI
	MOVQ a2+16(FP), SI
	MOVQ a3+24(FP), DX
	MOVQ (TLS), R15   // g
	MOVQ 48(R15), R13 // g.m
	MOVQ 0(R13), R13  // m.g0
	MOVQ SP, R12
	MOVQ R13, (TLS)
	MOVQ 56(R13), SP  // g0.sched.sp
	ANDQ $~15, SP
	CALL AX
	MOVQ R12, SP
	MOVQ R15, (TLS)
	MOVQ AX, ret+32(FP)
	RET

// func getg() (gp, sp uintptr)
TEXT ·getg(SB), NOSPLIT, $0-16
	MOVQ (TLS), AX
	MOVQ AX, gp+0(FP)
	MOVQ SP, sp+8(FP)
	RET
