//go:build linux

package engine

// Opcodes of send WQEs. C: MLX5_OPCODE_*.
const (
	opNOP        = 0x00
	opSendInval  = 0x01
	opWrite      = 0x08
	opWriteImm   = 0x09
	opSend       = 0x0a
	opSendImm    = 0x0b
	opTSO        = 0x0e
	opRead       = 0x10
	opAtomicCS   = 0x11
	opAtomicFA   = 0x12
	opMaskedCS   = 0x14
	opMaskedFA   = 0x15
	opFMR        = 0x19
	opLocalInval = 0x1b
	opConfigCmd  = 0x1f
	opSetPSV     = 0x20
	opUMR        = 0x25
	opTagMatch   = 0x28
	opFlowTable  = 0x2c
	opMMO        = 0x2f
)

// traits is what an opcode does, and what carries it.
type traits uint16

const (
	isKnown  traits = 1 << iota // without another trait it ends with a local QP operation error
	isSend                      // consumes a receive
	isWrite                     // remote write
	isRead                      // remote read
	isAtomic                    // remote atomic
	isLocal                     // goes nowhere
	isImm
	onRC
	onUC
	onUD
	onRaw
)

// opcodes has all opcodes of the format; the others have no traits.
var opcodes = [256]traits{
	opNOP:        isKnown | isLocal | onRC | onUC | onUD | onRaw,
	opSend:       isKnown | isSend | onRC | onUC | onUD | onRaw,
	opSendImm:    isKnown | isSend | isImm | onRC | onUC | onUD,
	opSendInval:  isKnown | isSend | onRC,
	opWrite:      isKnown | isWrite | onRC | onUC,
	opWriteImm:   isKnown | isWrite | isSend | isImm | onRC | onUC,
	opRead:       isKnown | isRead | onRC,
	opAtomicCS:   isKnown | isAtomic | onRC,
	opAtomicFA:   isKnown | isAtomic | onRC,
	opMaskedCS:   isKnown | isAtomic | onRC,
	opMaskedFA:   isKnown | isAtomic | onRC,
	opUMR:        isKnown | isLocal | onRC | onUC,
	opTSO:        isKnown | isSend | onRaw,
	opFMR:        isKnown,
	opLocalInval: isKnown,
	opConfigCmd:  isKnown,
	opSetPSV:     isKnown | isLocal | onRC,
	opTagMatch:   isKnown | isLocal | onRC,
	opFlowTable:  isKnown,
	opMMO:        isKnown | isLocal | onRC,
}
