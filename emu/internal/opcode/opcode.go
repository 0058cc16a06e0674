// Package opcode names the opcodes of mlx5's WQEs.
package opcode

// Opcodes of WQEs. C: MLX5_OPCODE_*.
const (
	NOP        = 0x00
	SendInval  = 0x01
	Write      = 0x08
	WriteImm   = 0x09
	Send       = 0x0a
	SendImm    = 0x0b
	TSO        = 0x0e
	Read       = 0x10
	AtomicCS   = 0x11
	AtomicFA   = 0x12
	MaskedCS   = 0x14
	MaskedFA   = 0x15
	FMR        = 0x19
	LocalInval = 0x1b
	ConfigCmd  = 0x1f
	SetPSV     = 0x20
	UMR        = 0x25
	TagMatch   = 0x28
	FlowTable  = 0x2c
	MMO        = 0x2f
)

// Names holds the names, which the trace prints and a fault's rule has.
var Names = map[uint8]string{
	NOP: "NOP", SendInval: "SEND_INVAL", Write: "RDMA_WRITE", WriteImm: "RDMA_WRITE_IMM", Send: "SEND",
	SendImm: "SEND_IMM", TSO: "TSO", Read: "RDMA_READ", AtomicCS: "ATOMIC_CS", AtomicFA: "ATOMIC_FA",
	MaskedCS: "MASKED_CS", MaskedFA: "MASKED_FA", FMR: "FMR", LocalInval: "LOCAL_INVAL", ConfigCmd: "CONFIG_CMD",
	SetPSV: "SET_PSV", UMR: "UMR", TagMatch: "TAG_MATCHING", FlowTable: "FLOW_TBL_ACCESS", MMO: "MMO",
}

// Parse returns the opcode with a name.
func Parse(name string) (op uint8, ok bool) {
	for op, s := range Names {
		if s == name {
			return op, true
		}
	}
	return 0, false
}
