//go:build linux

package trace

import (
	"strconv"

	"github.com/pureverbs/pureverbs/emu/internal/opcode"
)

// Names of the formats' numbers. C: MLX5_CQE_*, MLX5_CQE_SYNDROME_*, IB_EVENT_*.
var (
	opcodes    = table(opcode.Names)
	cqeOpcodes = table{0: "REQ", 1: "RESP_WR_IMM", 2: "RESP_SEND", 3: "RESP_SEND_IMM", 4: "RESP_SEND_INV",
		5: "RESIZE_CQ", 6: "NO_PACKET", 12: "SIG_ERR", 13: "REQ_ERR",
		14: "RESP_ERR", 15: "INVALID"}
	syndromes = table{0x01: "LOCAL_LENGTH_ERR", 0x02: "LOCAL_QP_OP_ERR", 0x04: "LOCAL_PROT_ERR", 0x05: "WR_FLUSH_ERR",
		0x06: "MW_BIND_ERR", 0x10: "BAD_RESP_ERR", 0x11: "LOCAL_ACCESS_ERR", 0x12: "REMOTE_INVAL_REQ_ERR",
		0x13: "REMOTE_ACCESS_ERR", 0x14: "REMOTE_OP_ERR", 0x15: "TRANSPORT_RETRY_EXC_ERR",
		0x16: "RNR_RETRY_EXC_ERR", 0x22: "REMOTE_ABORTED_ERR"}
	events = table{0: "CQ_ERR", 1: "QP_FATAL", 2: "QP_REQ_ERR", 3: "QP_ACCESS_ERR", 4: "COMM_EST", 5: "SQ_DRAINED",
		6: "PATH_MIG", 7: "PATH_MIG_ERR", 8: "DEVICE_FATAL", 9: "PORT_ACTIVE", 10: "PORT_ERR", 11: "LID_CHANGE",
		12: "PKEY_CHANGE", 13: "SM_CHANGE", 14: "SRQ_ERR", 15: "SRQ_LIMIT_REACHED", 16: "QP_LAST_WQE_REACHED",
		17: "CLIENT_REREGISTER", 18: "GID_CHANGE", 19: "WQ_FATAL"}
)

type table map[uint8]string

// name returns the name, or what is unknown as prefix(17).
func (t table) name(prefix string, v uint8) string {
	if s, ok := t[v]; ok {
		return s
	}
	return prefix + "(" + strconv.Itoa(int(v)) + ")"
}
