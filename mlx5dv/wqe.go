package mlx5dv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/flags"
	"github.com/pureverbs/pureverbs/internal/work"
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

var wqeOpcodeNames = func() map[WQEOpcode]string {
	names := map[WQEOpcode]string{OpNop: "Nop", OpLocalInv: "LocalInv"} // of no work request
	for i := range work.Kinds {
		if k := &work.Kinds[i]; k.WQE != "" {
			names[WQEOpcode(k.Device)] = k.WQE
		}
	}
	return names
}()

// String returns the name, as in "Send".
func (o WQEOpcode) String() string {
	if s, ok := wqeOpcodeNames[o]; ok {
		return s
	}
	return fmt.Sprintf("WQEOpcode(%d)", uint8(o))
}

// WQEFlags are the flags of a control segment (fm_ce_se).
//
// C: MLX5_WQE_CTRL_* (providers/mlx5/mlx5dv.h, rdma-core v44.0, line 1216).
type WQEFlags uint8

const (
	WQESolicited  WQEFlags = 1 << 1 // raises a solicited event at the receiver
	WQESignaled   WQEFlags = 2 << 2 // asks for a completion
	WQESmallFence WQEFlags = 1 << 5 // waits for earlier UMRs and invalidations
	WQEFence      WQEFlags = 4 << 5 // waits for earlier reads and atomics
)

var wqeFlagNames = []string{1: "Solicited", 3: "Signaled", 5: "SmallFence", 7: "Fence"}

// String joins the names with "|".
func (f WQEFlags) String() string { return flags.String(f, wqeFlagNames) }
