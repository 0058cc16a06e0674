package mlx5dv

import (
	"fmt"
)

// WQEOpcode is the operation of a work queue entry.
//
// C: MLX5_OPCODE_* (providers/mlx5/mlx5dv.h, rdma-core v44.0, line 1021).
type WQEOpcode uint8

const (
	OpNop         WQEOpcode = 0x00 // completes, and does nothing else
	OpSendInv     WQEOpcode = 0x01 // the immediate is the rkey that the peer's device invalidates
	OpWrite       WQEOpcode = 0x08
	OpWriteImm    WQEOpcode = 0x09
	OpSend        WQEOpcode = 0x0a
	OpSendImm     WQEOpcode = 0x0b
	OpTSO         WQEOpcode = 0x0e
	OpRead        WQEOpcode = 0x10
	OpCompareSwap WQEOpcode = 0x11
	OpFetchAdd    WQEOpcode = 0x12
	OpLocalInv    WQEOpcode = 0x1b
	OpUMR         WQEOpcode = 0x25
)

var wqeOpcodeNames = map[WQEOpcode]string{
	OpNop: "Nop", OpSendInv: "SendInv", OpWrite: "Write", OpWriteImm: "WriteImm", OpSend: "Send", OpSendImm: "SendImm",
	OpTSO: "TSO", OpRead: "Read", OpCompareSwap: "CompareSwap", OpFetchAdd: "FetchAdd", OpLocalInv: "LocalInv",
	OpUMR: "UMR",
}

// String returns the name, as in "Send".
func (o WQEOpcode) String() string {
	if s, ok := wqeOpcodeNames[o]; ok {
		return s
	}
	return fmt.Sprintf("WQEOpcode(%d)", uint8(o))
}
