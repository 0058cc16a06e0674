#include "textflag.h"

// Barrier operands: DMB $1 OSHLD, DMB $2 OSHST, DMB $3 OSH, DSB $14 ST.

// func RingSend(dbrec unsafe.Pointer, record uint32, reg unsafe.Pointer, ctrl uint64)
TEXT ·RingSend(SB), NOSPLIT, $0-32
	MOVD	dbrec+0(FP), R0
	MOVWU	record+8(FP), R1
	MOVD	reg+16(FP), R2
	MOVD	ctrl+24(FP), R3
	DMB	$2	// udma_to_device_barrier
	MOVW	R1, (R0)
	DSB	$14	// mmio_wc_start
	MOVD	R3, (R2)
	DSB	$14	// mmio_flush_writes
	RET

// func RingSendBlueFlame(dbrec unsafe.Pointer, record uint32, reg, wqe unsafe.Pointer, blocks int, start, end unsafe.Pointer)
TEXT ·RingSendBlueFlame(SB), NOSPLIT, $0-56
	MOVD	dbrec+0(FP), R0
	MOVWU	record+8(FP), R1
	MOVD	reg+16(FP), R2
	MOVD	wqe+24(FP), R3
	MOVD	blocks+32(FP), R4
	MOVD	start+40(FP), R5
	MOVD	end+48(FP), R6
	DMB	$2
	MOVW	R1, (R0)
	DSB	$14
block:
	// One 64-byte store: the write-combining buffer goes out as a whole.
	VLD1.P	64(R3), [V0.B16, V1.B16, V2.B16, V3.B16]
	VST1.P	[V0.B16, V1.B16, V2.B16, V3.B16], 64(R2)
	CMP	R3, R6
	BNE	next
	MOVD	R5, R3
next:
	SUB	$1, R4
	CBNZ	R4, block
	DSB	$14
	RET

// func Record(dbrec unsafe.Pointer, record uint32)
TEXT ·Record(SB), NOSPLIT, $0-12
	MOVD	dbrec+0(FP), R0
	MOVWU	record+8(FP), R1
	DMB	$2	// udma_to_device_barrier
	MOVW	R1, (R0)
	RET

// func Consumed(dbrec unsafe.Pointer, ci uint32)
TEXT ·Consumed(SB), NOSPLIT, $0-12
	MOVD	dbrec+0(FP), R0
	MOVWU	ci+8(FP), R1
	DMB	$3	// the entries are read, and the index that others compare is stored
	MOVW	R1, (R0)
	RET

// func Moved(dbrec unsafe.Pointer, ci uint32)
TEXT ·Moved(SB), NOSPLIT, $0-12
	MOVD	dbrec+0(FP), R0
	MOVWU	ci+8(FP), R1
	DMB	$3	// udma_to_device_barrier, and the entries are read
	MOVW	R1, (R0)
	RET

// func ArmCQ(armRec unsafe.Pointer, record uint32, reg unsafe.Pointer, cmd uint64)
TEXT ·ArmCQ(SB), NOSPLIT, $0-32
	MOVD	armRec+0(FP), R0
	MOVWU	record+8(FP), R1
	MOVD	reg+16(FP), R2
	MOVD	cmd+24(FP), R3
	DMB	$1	// loads of entries before the arming
	MOVW	R1, (R0)
	DSB	$14
	MOVD	R3, (R2)
	DSB	$14
	RET

// func LoadCQE(p unsafe.Pointer) uint64
TEXT ·LoadCQE(SB), NOSPLIT, $0-16
	MOVD	p+0(FP), R0
	MOVD	(R0), R1
	DMB	$1	// udma_from_device_barrier
	MOVD	R1, ret+8(FP)
	RET

// func Loaded()
TEXT ·Loaded(SB), NOSPLIT, $0-0
	DMB	$1	// udma_from_device_barrier
	RET
