//go:build !pureverbs_native && linux

#include "textflag.h"

// void thunk(struct thunkArgs *args), called by C's rules on the g0 stack.
TEXT thunk<>(SB), NOSPLIT|NOFRAME, $0-0
	PUSHQ BX // callee-saved; also aligns the stack to 16 for the call
	MOVQ DI, BX
	MOVQ 8(BX), DI
	MOVQ 16(BX), SI
	MOVQ 24(BX), DX
	MOVQ 32(BX), CX
	MOVQ 40(BX), R8
	MOVQ 48(BX), R9
	MOVQ 0(BX), AX
	CALL AX
	MOVQ AX, 56(BX)
	POPQ BX
	RET

DATA ·thunkAddr(SB)/8, $thunk<>(SB)
GLOBL ·thunkAddr(SB), NOPTR|RODATA, $8
