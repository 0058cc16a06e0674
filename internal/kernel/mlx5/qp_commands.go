package mlx5

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// setBits sets a field of width bits that begins at bit at, within one word of 32 bits, of a command.
func setBits(b []byte, at, width int, v uint32) {
	word := b[at/32*4:]
	shift := 32 - at%32 - width
	mask := uint32(1<<width-1) << shift
	binary.BigEndian.PutUint32(word, binary.BigEndian.Uint32(word)&^mask|v<<shift&mask)
}

// Commands on a QP and its parts. C: MLX5_CMD_OP_*.
const (
	rts2rts   = 0x505
	queryQP   = 0x50b
	init2init = 0x50e
	queryDCT  = 0x713
	queryLAG  = 0x842
	modifyTIS = 0x913
	queryTIS  = 0x915
)

// numberAt is where a command has the number of its object: 24 bits.
const numberAt = 0x48

// query asks the device about a QP, or a part of it. size is of the answer.
func (q *qp) query(opcode uint16, number uint32, size int) (caps, error) {
	in, out := make([]byte, 16), make(caps, size)
	binary.BigEndian.PutUint16(in, opcode)
	setBits(in, numberAt, 24, number)
	return out, answered(out, q.c.about(methodQuery, q.kernel, in, out))
}

// modify has the device change a QP, or a part of it. size is of the command.
func (q *qp) modify(opcode uint16, number uint32, size int, set func(in []byte)) error {
	in, out := make([]byte, size), make([]byte, 16)
	binary.BigEndian.PutUint16(in, opcode)
	setBits(in, numberAt, 24, number)
	set(in)
	return answered(out, q.c.about(methodModify, q.kernel, in, out))
}

func (q *qp) isRTS() bool { return q.state.Load() == abi.IBV_QPS_RTS }

// Fields of RTS2RTS_QP and INIT2INIT_QP, and their size. C: struct mlx5_ifc_rts2rts_qp_in_bits.
const (
	modifyQPSize  = 0x1d0
	queryQPSize   = 272  // of the answer of QUERY_QP
	optionsAt     = 0x80 // of 32 bits
	moreOptionsAt = 0x840
	affinityAt    = 0xc4 // qpc.lag_tx_port_affinity
	udpPortAt     = 0x290
)

// extend modifies the part of a QP that the kernel's commands have no attributes for.
func (q *qp) extend(opcode uint16, mask uint64, set func(ext []byte)) error {
	const ext, hasExt = 0x110, 0x40
	return q.modify(opcode, q.number, modifyQPSize, func(in []byte) {
		setBits(in, hasExt, 1, 1)
		binary.BigEndian.PutUint64(in[moreOptionsAt/8:], mask)
		set(in[ext:])
	})
}
