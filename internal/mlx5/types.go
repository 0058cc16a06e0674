package mlx5

import "github.com/pureverbs/pureverbs/internal/work"

// The types of a work request.
type (
	SGE        = work.SGE
	RemoteAddr = work.RemoteAddr
	SendWR     = work.SendWR
)

// Form describes the segments of a send queue's WQEs between the control segment and those of the opcode.
type Form uint8

// The forms.
const (
	FormConnected Form = iota // nothing
	FormDatagram              // an address vector and a Q_Key
	FormDC                    // an address vector and a DC access key
	FormXRC                   // the number of an SRQ
	FormFrame                 // an Ethernet segment
)

// RecvWR is a work request for a receive queue. The type that users fill has this layout.
type RecvWR struct {
	ID   uint64
	SGEs []SGE
}

// maxSGELength is the maximum length of an SGE in bytes. The field has 31 bits: the highest bit marks inline data, and
// 0 means 2 GiB.
const maxSGELength = 1<<31 - 1

// plain reports whether s can be written as one data segment.
func plain(s *SGE) bool { return s.Length-1 < maxSGELength }

// WC is a completion. The type that users read has this layout.
type WC struct {
	ID              uint64
	Status          uint32
	Opcode          uint32
	VendorErr       uint32
	ByteLen         uint32
	Imm             uint32
	InvalidatedRKey uint32
	QPN             uint32
	SrcQPN          uint32
	Flags           uint32
	PKeyIndex       uint16
	SLID            uint16
	SL              uint8
	DLIDPathBits    uint8
	CVLAN           uint16 // only PollTags sets it
	FlowTag         uint32 // only PollTags sets it
	Timestamp       uint64 // ticks of the device's clock
}

// Verbs completion opcodes that the code refers to by name. C: enum ibv_wc_opcode.
const (
	wcBindMW   = 5
	wcLocalInv = 6
	wcDriver1  = 135 // a change of a memory key. C: MLX5DV_WC_UMR
	wcRecv     = 1 << 7
	wcRecvImm  = 1<<7 + 1
)

// Verbs completion flags. C: enum ibv_wc_flags.
const (
	wcGRH     = 1 << 0
	wcWithImm = 1 << 1
	wcCsumOK  = 1 << 2 // C: IBV_WC_IP_CSUM_OK
	wcWithInv = 1 << 3
)

// Verbs completion statuses that the code refers to by name. C: enum ibv_wc_status.
const (
	statusLocLen  = 1
	statusLocProt = 4
	statusGeneral = 21
)

// statuses are the verbs statuses for the syndromes of error CQEs, 0 for others.
var statuses = [...]uint8{
	0x01: statusLocLen,
	0x02: 2,  // local QP operation
	0x04: 4,  // local protection
	0x05: 5,  // flushed
	0x06: 6,  // memory window bind
	0x10: 7,  // bad response
	0x11: 8,  // local access
	0x12: 9,  // remote invalid request
	0x13: 10, // remote access
	0x14: 11, // remote operation
	0x15: 12, // transport retries exceeded
	0x16: 13, // RNR retries exceeded
	0x22: 16, // remote aborted
}

// statusOf returns the verbs status for the syndrome of an error CQE.
func statusOf(syndrome uint8) uint32 {
	if int(syndrome) < len(statuses) && statuses[syndrome] != 0 {
		return uint32(statuses[syndrome])
	}
	return statusGeneral
}
