//go:build linux

package fault

// opcodes of work requests, for opcode=. C: MLX5_OPCODE_*.
var opcodes = map[string]int{
	"NOP": 0x00, "SEND_INVAL": 0x01, "RDMA_WRITE": 0x08, "RDMA_WRITE_IMM": 0x09, "SEND": 0x0a, "SEND_IMM": 0x0b,
	"TSO": 0x0e, "RDMA_READ": 0x10, "ATOMIC_CS": 0x11, "ATOMIC_FA": 0x12, "MASKED_CS": 0x14, "MASKED_FA": 0x15,
	"LOCAL_INVAL": 0x1b, "SET_PSV": 0x20, "UMR": 0x25, "MMO": 0x2f,
}
