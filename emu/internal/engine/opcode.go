//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/opcode"

// Opcodes of send WQEs. C: MLX5_OPCODE_*.
const (
	opNOP        = opcode.NOP
	opSendInval  = opcode.SendInval
	opWrite      = opcode.Write
	opWriteImm   = opcode.WriteImm
	opSend       = opcode.Send
	opSendImm    = opcode.SendImm
	opTSO        = opcode.TSO
	opRead       = opcode.Read
	opAtomicCS   = opcode.AtomicCS
	opAtomicFA   = opcode.AtomicFA
	opMaskedCS   = opcode.MaskedCS
	opMaskedFA   = opcode.MaskedFA
	opFMR        = opcode.FMR
	opLocalInval = opcode.LocalInval
	opConfigCmd  = opcode.ConfigCmd
	opSetPSV     = opcode.SetPSV
	opUMR        = opcode.UMR
	opTagMatch   = opcode.TagMatch
	opFlowTable  = opcode.FlowTable
	opMMO        = opcode.MMO
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
