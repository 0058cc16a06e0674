#include "textflag.h"

// func ring(reg unsafe.Pointer, ctrl uint64)
TEXT ·ring(SB), NOSPLIT, $0-16
	MOVQ	reg+0(FP), DX
	MOVQ	ctrl+8(FP), BX
	SFENCE			// mmio_wc_start
	MOVQ	BX, (DX)
	SFENCE			// mmio_flush_writes
	RET

// func RingSendBlueFlame(dbrec unsafe.Pointer, record uint32, reg, wqe unsafe.Pointer, blocks int, start, end unsafe.Pointer)
TEXT ·RingSendBlueFlame(SB), NOSPLIT, $0-56
	MOVQ	dbrec+0(FP), AX
	MOVL	record+8(FP), CX
	MOVQ	reg+16(FP), DI
	MOVQ	wqe+24(FP), SI
	MOVQ	blocks+32(FP), R8
	MOVQ	start+40(FP), R9
	MOVQ	end+48(FP), R10
	MOVL	CX, (AX)
	SFENCE
block:
	MOVQ	0(SI), AX
	MOVQ	AX, 0(DI)
	MOVQ	8(SI), AX
	MOVQ	AX, 8(DI)
	MOVQ	16(SI), AX
	MOVQ	AX, 16(DI)
	MOVQ	24(SI), AX
	MOVQ	AX, 24(DI)
	MOVQ	32(SI), AX
	MOVQ	AX, 32(DI)
	MOVQ	40(SI), AX
	MOVQ	AX, 40(DI)
	MOVQ	48(SI), AX
	MOVQ	AX, 48(DI)
	MOVQ	56(SI), AX
	MOVQ	AX, 56(DI)
	ADDQ	$64, SI
	ADDQ	$64, DI
	CMPQ	SI, R10
	JNE	next
	MOVQ	R9, SI
next:
	DECQ	R8
	JNZ	block
	SFENCE
	RET

// func Moved(dbrec unsafe.Pointer, ci uint32)
TEXT ·Moved(SB), NOSPLIT, $0-12
	MOVQ	dbrec+0(FP), AX
	MOVL	ci+8(FP), CX
	MOVL	CX, (AX)
	RET

// func ArmCQ(armRec unsafe.Pointer, record uint32, reg unsafe.Pointer, cmd uint64)
TEXT ·ArmCQ(SB), NOSPLIT, $0-32
	MOVQ	armRec+0(FP), AX
	MOVL	record+8(FP), CX
	MOVQ	reg+16(FP), DX
	MOVQ	cmd+24(FP), BX
	MOVL	CX, (AX)
	SFENCE
	MOVQ	BX, (DX)
	SFENCE
	RET
