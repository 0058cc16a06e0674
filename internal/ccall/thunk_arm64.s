//go:build !pureverbs_native && linux

#include "textflag.h"

// void thunk(struct thunkArgs *args), called by C's rules on the g0 stack.
TEXT thunk<>(SB), NOSPLIT|NOFRAME, $0-0
	SUB $32, RSP // keeps the stack aligned to 16
	MOVD R29, 0(RSP)
	MOVD R30, 8(RSP)
	MOVD R19, 16(RSP) // callee-saved
	MOVD R0, R19
	MOVD 0(R19), R9
	MOVD 8(R19), R0
	MOVD 16(R19), R1
	MOVD 24(R19), R2
	MOVD 32(R19), R3
	MOVD 40(R19), R4
	MOVD 48(R19), R5
	CALL (R9)
	MOVD R0, 56(R19)
	MOVD 16(RSP), R19
	MOVD 8(RSP), R30
	MOVD 0(RSP), R29
	ADD $32, RSP
	RET

DATA ·thunkAddr(SB)/8, $thunk<>(SB)
GLOBL ·thunkAddr(SB), NOPTR|RODATA, $8
