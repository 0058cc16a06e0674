//go:build linux

package uapi

// The adapter's own commands, which DevX passes on: big-endian records whose fields are bits, counted from the highest
// one of the first byte.

// Bits is a field of a command, an answer or a context: where it begins and how many bits it has, at most 64.
type Bits struct{ At, Len int }

// In returns the field as it lies in a context that begins at bit at.
func (f Bits) In(at int) Bits { return Bits{at + f.At, f.Len} }

// Get reads the field. Bits that b lacks are 0.
func (f Bits) Get(b []byte) (v uint64) {
	for i := f.At; i < f.At+f.Len; i++ {
		v <<= 1
		if i/8 < len(b) {
			v |= uint64(b[i/8] >> (7 - i%8) & 1)
		}
	}
	return v
}

// Put writes the low bits of v into the field, as far as b has room.
func (f Bits) Put(b []byte, v uint64) {
	for i := f.At + f.Len - 1; i >= f.At; i-- {
		if i/8 < len(b) {
			bit := byte(1) << (7 - i%8)
			b[i/8] &^= bit
			if v&1 != 0 {
				b[i/8] |= bit
			}
		}
		v >>= 1
	}
}

// Fields that commands and answers share. C: struct mlx5_ifc_general_obj_in_cmd_hdr_bits, general_obj_out_cmd_hdr.
var (
	CmdOpcode   = Bits{0x00, 16}
	CmdOpMod    = Bits{0x30, 16}
	CmdObjType  = Bits{0x30, 16} // of general objects, in the place of the modifier
	CmdObjID    = Bits{0x40, 32}
	CmdObjRange = Bits{0x63, 5}
	CmdNum      = Bits{0x48, 24} // of a QP, CQ, PD …: in commands and in answers

	OutStatus   = Bits{0x00, 8}
	OutSyndrome = Bits{0x20, 32}
	OutObjID    = Bits{0x40, 32}
	OutPSV      = Bits{0x88, 24} // C: create_psv_out
)

// Least sizes of a command and of an answer.
const (
	CmdHeader = 16
	OutHeader = 16
)

// Commands. C: MLX5_CMD_OP_*.
const (
	OpQueryHCACap          = 0x100
	OpQueryAdapter         = 0x101
	OpQueryISSI            = 0x10a
	OpCreateMKey           = 0x200
	OpCreateCQ             = 0x400
	OpQueryCQ              = 0x402
	OpCreateQP             = 0x500
	OpRst2InitQP           = 0x502
	OpInit2RtrQP           = 0x503
	OpRtr2RtsQP            = 0x504
	OpRts2RtsQP            = 0x505
	Op2ErrQP               = 0x507
	Op2RstQP               = 0x50a
	OpQueryQP              = 0x50b
	OpInit2InitQP          = 0x50e
	OpCreatePSV            = 0x600
	OpQueryDCT             = 0x713
	OpQueryEswFunctions    = 0x740
	OpQueryVportState      = 0x750
	OpQueryEswVport        = 0x752
	OpQueryNICVport        = 0x754
	OpQueryRoceAddress     = 0x760
	OpQueryHCAVport        = 0x762
	OpQueryVnicEnv         = 0x76f
	OpQueryVportCounter    = 0x770
	OpAllocPD              = 0x800
	OpGetDroppedPacketLog  = 0x80a
	OpNop                  = 0x80d
	OpAllocTransportDomain = 0x816
	OpQueryCongStatus      = 0x822
	OpQueryCongParams      = 0x824
	OpQueryCongStatistics  = 0x826
	OpQueryLAG             = 0x842
	OpCreateTIR            = 0x900
	OpModifySQ             = 0x905
	OpCreateTIS            = 0x912
	OpModifyTIS            = 0x913
	OpQueryTIS             = 0x915
	OpAllocFlowCounter     = 0x939
	OpQueryFlowCounter     = 0x93b
	OpCreateGeneralObject  = 0xa00
	OpModifyGeneralObject  = 0xa01
	OpQueryGeneralObject   = 0xa02
	OpGeneralFirst         = 0xb00 // from here on all are general commands
	OpGeneralEnd           = 0xf00
)

// Status is how a command ended. C: MLX5_CMD_STAT_*.
type Status uint8

// Statuses.
const (
	StatusOK          Status = 0x00
	StatusBadOp       Status = 0x02
	StatusBadParam    Status = 0x03
	StatusBadResource Status = 0x05
	StatusBusy        Status = 0x06
	StatusLimit       Status = 0x08
	StatusBadState    Status = 0x09
	StatusNoResources Status = 0x0f
	StatusBadQPState  Status = 0x10
)
